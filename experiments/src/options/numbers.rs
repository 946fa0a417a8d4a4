//! Numbers on the command line, and how large they may be.

use crate::Failure;
use maniple_stencil::{available_memory, bytes};

/// A whole number, also as `1e6`.
pub fn count(text: &str) -> Result<usize, String> {
    let wrong = || format!("expected a whole number, found `{text}`");
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    if !digits(mantissa) || !digits(exponent) {
        return Err(wrong());
    }
    let number = || mantissa.parse::<usize>().ok()?.checked_mul(10_usize.checked_pow(exponent.parse().ok()?)?);
    number().ok_or_else(|| format!("expected a number up to {}, found `{text}`", usize::MAX))
}

/// A count that must not be 0, and that a 64-bit float holds exactly, so that no arithmetic on counts overflows.
pub fn at_least_one(what: &str, count: usize) -> Result<usize, Failure> {
    const MOST: usize = 1 << f64::MANTISSA_DIGITS;
    match count {
        0 => Err(Failure::Usage(format!("expected at least 1 for {what}, found 0"))),
        1..=MOST => Ok(count),
        _ => Err(Failure::Usage(format!("expected at most {MOST} for {what}, found {count}"))),
    }
}

/// Refuses what the memory available now can't hold: `each` bytes for so many of something, an estimate on the low side.
pub fn check_memory(what: &str, count: usize, each: u128) -> Result<(), Failure> {
    let (needed, available) = (each.saturating_mul(count as u128), u128::from(available_memory()));
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (bytes(needed), bytes(available));
    Err(Failure::Usage(format!("{count} {what} need at least {needed} of memory, and {available} are available")))
}

/// Shards, as many as can be numbered.
pub fn shards(count: usize) -> Result<u32, Failure> {
    let most = u32::MAX >> 8;
    match u32::try_from(at_least_one("shards", count)?) {
        Ok(shards) if shards <= most => Ok(shards),
        _ => Err(Failure::Usage(format!("expected at most {most} shards, found {count}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(count("16"), Ok(16));
        assert_eq!(count("1e9"), Ok(1_000_000_000));
        assert_eq!(count("25E2"), Ok(2500));
        for wrong in ["", "-1", "+1", "1.5", "e3", "1e", "1e-3", "ten", "0x10", " 1", "1_000"] {
            assert_eq!(count(wrong), Err(format!("expected a whole number, found `{wrong}`")));
        }
        for large in ["18446744073709551616", "1e20", "1e99999999999"] {
            let message = format!("expected a number up to 18446744073709551615, found `{large}`");
            assert_eq!(count(large), Err(message));
        }
    }
}

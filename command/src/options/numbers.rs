//! Numbers on the command line, and their limits.

use crate::Failure;
use crate::host::available_memory;
use crate::output::bytes;

/// A number, such as `0.5`.
pub fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("expected a number, such as 0.5, found `{text}`"))
}

/// A seed: a whole number.
pub fn seed(text: &str) -> Result<u64, String> {
    count(text).map(|seed| seed as u64)
}

/// A whole number, also as `1e6`.
pub fn count(text: &str) -> Result<usize, String> {
    let wrong = || format!("expected a whole number, such as 16 or 1e3, found `{text}`");
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    if !digits(mantissa) || !digits(exponent) {
        return Err(wrong());
    }
    let number = || mantissa.parse::<usize>().ok()?.checked_mul(10_usize.checked_pow(exponent.parse().ok()?)?);
    number().ok_or_else(|| format!("expected a number up to {}, found `{text}`", usize::MAX))
}

/// Checks the count of the option `--NAME`. It must not be 0, and a 64-bit float must hold it exactly, so that no arithmetic
/// on counts overflows.
pub fn at_least_one(name: &str, count: usize) -> Result<usize, Failure> {
    one_to(1 << f64::MANTISSA_DIGITS, name, count)
}

/// Checks the count of the option `--NAME`, which must be in `1..=most`.
pub fn one_to(most: usize, name: &str, count: usize) -> Result<usize, Failure> {
    match count {
        0 => Err(Failure::Usage(zero(name))),
        _ if count > most => Err(Failure::Usage(format!("--{name}: expected at most {most}, found {count}"))),
        _ => Ok(count),
    }
}

/// The message where the count of the option `--NAME` is 0.
pub fn zero(name: &str) -> String {
    format!("--{name}: expected at least 1, found 0")
}

/// Checks that the memory available now can hold `count` times `each` bytes. `what` names them, with their number. `each` is
/// an estimate, low rather than high.
pub fn check_memory(what: &str, count: usize, each: u128) -> Result<(), Failure> {
    let (needed, available) = (each.saturating_mul(count as u128), u128::from(available_memory()));
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (bytes(needed), bytes(available));
    Err(Failure::Usage(format!("{what}: this needs at least {needed} of memory, and {available} are available")))
}

/// Checks that `count` shards can be numbered.
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
            let message = format!("expected a whole number, such as 16 or 1e3, found `{wrong}`");
            assert_eq!((count(wrong), seed(wrong)), (Err(message.clone()), Err(message)));
        }
        assert_eq!(number("0.25"), Ok(0.25));
        assert_eq!(number("much"), Err("expected a number, such as 0.5, found `much`".into()));
        for large in ["18446744073709551616", "1e20", "1e99999999999"] {
            let message = format!("expected a number up to 18446744073709551615, found `{large}`");
            assert_eq!(count(large), Err(message));
        }
    }
}

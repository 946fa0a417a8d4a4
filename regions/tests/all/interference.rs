//! The interference rule against its whole table, written out.

use maniple_regions::Coherence::{self, Atomic, Exclusive, Simultaneous};
use maniple_regions::Interference::{self, Conflict, None as Free, Serializes, Simultaneous as Ordered};
use maniple_regions::Privilege::{self, Read, ReadWrite, Reduce, WriteDiscard};
use maniple_regions::{FieldId, Rect, ReductionId, Region, TreeId, Use, interference};

const SUM: Privilege = Reduce(ReductionId::new("sum"));
const MAX: Privilege = Reduce(ReductionId::new("max"));

const ROWS: [Privilege; 5] = [Read, ReadWrite, WriteDiscard, SUM, MAX];

/// For two overlapping uses: the row is the first privilege, the column the second, in the order of `ROWS`; each entry
/// has the nine pairs of coherence as a block of three rows by three columns (exclusive, atomic, simultaneous).
/// `.` none, `S` serializes, `o` ordered by the user, `X` conflict.
const TABLE: &str = "
    ... XXX XXX XXX XXX
    ... XSX XSX XSX XSX
    ... XXo XXo XXo XXo

    XXX XXX XXX XXX XXX
    XSX XSX XSX XSX XSX
    XXo XXo XXo XXo XXo

    XXX XXX XXX XXX XXX
    XSX XSX XSX XSX XSX
    XXo XXo XXo XXo XXo

    XXX XXX XXX ... XXX
    XSX XSX XSX ... XXX
    XXo XXo XXo ... XXX

    XXX XXX XXX XXX ...
    XSX XSX XSX XXX ...
    XXo XXo XXo XXX ...
";

const COHERENCES: [Coherence; 3] = [Exclusive, Atomic, Simultaneous];

fn expected(a: usize, first: usize, b: usize, second: usize) -> Interference {
    let lines: Vec<&str> = TABLE.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let block = lines[a * 3 + first].split(' ').nth(b).unwrap();
    match block.as_bytes()[second] {
        b'.' => Free,
        b'S' => Serializes,
        b'o' => Ordered,
        b'X' => Conflict,
        other => panic!("unknown entry {other}"),
    }
}

fn at(rect: Rect, privilege: Privilege, coherence: Coherence) -> Use {
    Use { region: Region { tree: TreeId(1), rect }, field: FieldId(2), privilege, coherence }
}

#[test]
fn overlapping_uses_follow_the_table() {
    let mut entries = 0;
    for (a, &one) in ROWS.iter().enumerate() {
        for (first, &c) in COHERENCES.iter().enumerate() {
            for (b, &other) in ROWS.iter().enumerate() {
                for (second, &d) in COHERENCES.iter().enumerate() {
                    let left = at(Rect::line(0, 10), one, c);
                    let right = at(Rect::line(9, 20), other, d);
                    assert_eq!(interference(&left, &right), expected(a, first, b, second), "{left} and {right}");
                    assert_eq!(interference(&right, &left), expected(a, first, b, second), "{right} and {left}");
                    entries += 1;
                }
            }
        }
    }
    assert_eq!(entries, 225);
}

#[test]
fn uses_that_share_no_value_owe_each_other_nothing() {
    for &one in &ROWS {
        for &other in &ROWS {
            for &c in &COHERENCES {
                for &d in &COHERENCES {
                    let a = at(Rect::line(0, 10), one, c);
                    let b = at(Rect::line(5, 15), other, d);
                    let elsewhere = Use { region: Region { tree: TreeId(2), ..b.region }, ..b };
                    let another = Use { field: FieldId(3), ..b };
                    let beside = at(Rect::line(10, 15), other, d);
                    let empty = at(Rect::line(5, 5), other, d);
                    let plane = at(Rect::new([5, 0], [15, 1]), other, d);
                    for b in [elsewhere, another, beside, empty, plane] {
                        assert_eq!(interference(&a, &b), Free, "{a} and {b}");
                        assert_eq!(interference(&b, &a), Free, "{b} and {a}");
                    }
                }
            }
        }
    }
}

#[test]
fn separating_is_serializing_or_conflicting() {
    assert_eq!([Free, Serializes, Ordered, Conflict].map(Interference::separates), [false, true, false, true]);
}

#[test]
fn privileges_cover_by_the_table() {
    // Held, and what it covers of ROWS.
    let table = [
        (Read, [true, false, false, false, false]),
        (ReadWrite, [true, true, true, true, true]),
        (WriteDiscard, [true, true, true, true, true]),
        (SUM, [false, false, false, true, false]),
        (MAX, [false, false, false, false, true]),
    ];
    for (held, covered) in table {
        assert_eq!(ROWS.map(|asked| held.covers(asked)), covered, "{held}");
    }
}

#[test]
fn coherence_never_strengthens() {
    let table = [(Exclusive, [true, true, true]), (Atomic, [false, true, true]), (Simultaneous, [false, false, true])];
    for (held, may) in table {
        assert_eq!(COHERENCES.map(|asked| held.may_weaken_to(asked)), may, "{held}");
    }
}

#[test]
fn reductions_are_known_by_name() {
    assert_eq!(SUM.to_string(), "reduce(sum)");
    assert_ne!(ReductionId::new("mine::Append"), ReductionId::new("mine::Prepend"));
    assert!(Reduce(ReductionId::new("mine::Append")).to_string().starts_with("reduce(operator "));
}

//! How much the tests do: everything if the variable `MANIPLE_TESTS` is `full`, as in `./check full`, and otherwise a part.

/// Whether the tests do everything.
pub fn full() -> bool {
    std::env::var("MANIPLE_TESTS").is_ok_and(|size| size == "full")
}

/// Of `all` equal cases the number that the tests make: a tenth, and at least two, unless they do everything.
pub fn part(all: u64) -> u64 {
    if full() { all } else { (all / 10).max(2).min(all) }
}

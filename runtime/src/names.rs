//! The names of functions in reports, errors and traces, taken from their types.

use std::borrow::Cow;

/// The name of a function: the last part of the path that its type's name gives, without type arguments. A closure gets
/// the name of the function that it is in, and `::{{closure}}`.
pub(crate) fn short_name(name: &str) -> String {
    const CLOSURE: &str = "::{{closure}}";
    let mut depth = 0u32;
    let outside = |c: &char| {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ => return depth == 0,
        }
        false
    };
    let plain: Cow<'_, str> = if name.contains('<') { name.chars().filter(outside).collect() } else { name.into() };
    let function = plain.trim_end_matches(CLOSURE);
    let last = function.rsplit("::").next().unwrap_or(function);
    if function.len() < plain.len() { format!("{last}{CLOSURE}") } else { last.into() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::short_name;

    #[test]
    fn functions_are_called_by_the_last_part_of_their_path() {
        for (of_type, name) in [
            ("user::solver::norm", "norm"),
            ("user::solver::norm<alloc::vec::Vec<f64>>", "norm"),
            ("<user::Solver as user::Norms>::norm", "norm"),
            ("user::main::{{closure}}", "main::{{closure}}"),
            ("user::shard::{{closure}}::{{closure}}::{{closure}}", "shard::{{closure}}"),
            ("user::shard<alloc::vec::Vec<f64>>::{{closure}}::{{closure}}", "shard::{{closure}}"),
            ("<user::Solver<f64> as user::Norms>::norm::{{closure}}", "norm::{{closure}}"),
            ("user::shard::{{closure}}::norm", "norm"),
            // Names that were given.
            ("norm of u", "norm of u"),
            ("u -> v", "u -> v"),
        ] {
            assert_eq!(short_name(of_type), name, "{of_type}");
        }
    }
}

//! The names of tasks in reports, errors and traces, taken from the types of their functions.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

/// The name of a leaf task: its function's name, or the one that its launch gives. A closure has none of its own, so it is
/// shown with the line of its launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskName {
    /// The type's name, or the one given.
    pub of_type: &'static str,
    pub launched: &'static Location<'static>,
}

impl TaskName {
    /// A task without a launch.
    #[track_caller]
    pub fn new(of_type: &'static str) -> Self {
        Self { of_type, launched: Location::caller() }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = short_name(self.of_type);
        match short.strip_suffix(CLOSURE) {
            Some(function) => write!(f, "closure in {function}, {}:{}", self.launched.file(), self.launched.line()),
            None => f.write_str(&short),
        }
    }
}

const CLOSURE: &str = "::{{closure}}";

/// The name of a function: the last part of the path that its type's name gives, without type arguments. A closure gets
/// the name of the function that it is in, and `::{{closure}}`.
pub(crate) fn short_name(name: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::{TaskName, short_name};

    #[test]
    fn a_closure_is_called_by_the_line_of_its_launch() {
        let (closure, function) =
            (TaskName::new("user::shard<f64>::{{closure}}::{{closure}}"), TaskName::new("user::norm"));
        assert_eq!(closure.to_string(), format!("closure in shard, {}:{}", file!(), line!() - 1));
        assert_eq!(function.to_string(), "norm");
    }

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

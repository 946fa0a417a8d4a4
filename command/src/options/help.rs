//! Sentences that the help of several commands has.

/// The exit codes of a command: what 0, 1 and 2 mean. Without the first two, it is a command that verifies its runs.
#[macro_export]
macro_rules! exit_codes {
    ($well:literal, $failed:literal, $at_fault:literal) => {
        concat!(
            "Exit codes:\n  0    ",
            $well,
            "\n  1    ",
            $failed,
            "\n  2    ",
            $at_fault,
            "\n  130  interrupted by Ctrl-C"
        )
    };
    ($at_fault:literal) => {
        $crate::options::help::exit_codes!(
            "every run was verified",
            "a run failed or was not verified, or a file or stdout could not be written",
            $at_fault
        )
    };
    () => {
        $crate::options::help::exit_codes!("the arguments are at fault")
    };
}

/// The columns of the machine.
#[macro_export]
macro_rules! machine_columns {
    () => {
        "  machine, nodes  in virtual time: the name of the machine, and the number of its nodes\n"
    };
}

/// The column of the yardstick.
#[macro_export]
macro_rules! cache_line_column {
    () => {
        "  cache_line_ns   the time of a cache line between two threads, one way, right after the run: the \
         yardstick that `maniple cache-line` measures. In virtual time it is a message of 32 bytes on the machine's link. It is \
         empty with one processor\n\n\
         A warning under the table says when the yardstick shows that other programs disturbed the host.\n"
    };
}

pub use {cache_line_column, exit_codes, machine_columns};

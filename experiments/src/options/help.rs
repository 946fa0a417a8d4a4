//! Sentences that the help of several commands has.

/// What exit codes mean where runs are verified; what else is at fault where it is 2.
macro_rules! exit_codes {
    ($at_fault:literal) => {
        concat!(
            "Exit codes: 0, every run was verified; 1, one was not, or failed, or the report could not be written; 2, ",
            $at_fault,
            "."
        )
    };
    () => {
        $crate::options::help::exit_codes!("the arguments are at fault")
    };
}

/// The columns of the machine.
macro_rules! machine_columns {
    () => {
        "  machine, nodes  in virtual time: the machine's name, and its nodes\n"
    };
}

/// The column of the yardstick.
macro_rules! exchange_column {
    () => {
        "  exchange_ns     the exchange of a cache line between two threads right after the run, one way: the yardstick that \
         `maniple exchange` measures; in virtual time a message of 32 bytes on the machine's link; none with one processor\n"
    };
}

pub(crate) use {exchange_column, exit_codes, machine_columns};

//! The machine, the mapper trait, stock mappers and the validation of their decisions.

//! The tests of mappers, as one program.

mod files;
mod slot;
mod stock;

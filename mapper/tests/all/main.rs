//! The tests of mappers, as one program.

mod files;
mod routes;
mod slot;
mod stock;

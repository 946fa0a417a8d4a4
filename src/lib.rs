//! maniple

//! The application has no races, in either version and under each mapper.

use maniple::prelude::*;
use maniple::runtime::Check;
use maniple_mapper::stock;
use maniple_stencil::{Blocks, Collective, Problem, run};

#[test]
fn no_race_is_found() {
    let problem = Problem::from_mode(&Blocks::uniform(5, 20).unwrap(), 30);
    for collective in Collective::ALL {
        for workers in [1, 3] {
            for mapper in ["collective", "default"] {
                let runtime = Runtime::threads(workers).mapper(stock(mapper).unwrap()).check(Check::Races);
                let outcome = run(&runtime, collective, &problem).expect("no race");
                assert_eq!(outcome.failure, None, "{collective}, {workers} workers");
            }
        }
    }
}

//! The application has no races, in either version and under each mapper.

use maniple_stencil::{Collective, Config, run};

#[test]
fn no_race_is_found() {
    for &collective in Collective::ALL {
        for workers in [1, 3] {
            for mapper in ["collective", "default"] {
                let mapper = mapper.parse().expect("a stock mapper");
                let config =
                    Config { shards: 5, cells: Some(20), iterations: 30, repeat: 1, workers, ..Config::default() };
                let reports = run(&Config { collective, mapper, races: true, ..config }).expect("no race");
                assert!(reports.iter().all(|r| r.verified), "{collective}, {workers} workers");
            }
        }
    }
}

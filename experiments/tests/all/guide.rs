//! The studies in the guide and the README.

use crate::common::guide::{Shown, every_command_is_known, pages, shown};

#[test]
fn every_study_in_the_guide_and_the_readme_is_known() {
    every_command_is_known();
}

#[test]
fn every_study_is_in_the_guide_or_the_readme() {
    let mut studies = vec!["figures", "overlap", "calibrate", "predict", "benchmarks"];
    for page in pages() {
        for shown in shown(&std::fs::read_to_string(&page).expect("a page")) {
            let (Shown::Line(arguments) | Shown::Span(arguments)) = shown;
            studies.retain(|name| arguments.first().is_none_or(|first| first != name));
        }
    }
    assert!(studies.is_empty(), "neither the guide nor the README shows {studies:?}");
}

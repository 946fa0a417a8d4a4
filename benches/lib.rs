//! Benches of the hot paths. CONTRIBUTING.md says what each measures.

#[cfg(feature = "criterion")]
use {criterion::Criterion, std::time::Duration};

/// Measures these groups of benches, each bench for some seconds.
#[cfg(feature = "criterion")]
pub fn measure(groups: &[fn(&mut Criterion)]) {
    let criterion =
        Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let mut criterion = criterion.configure_from_args();
    groups.iter().for_each(|group| group(&mut criterion));
    criterion.final_summary();
}

/// Whether the bench is only run once as a test: by `cargo test`, or by `cargo bench -- --test`.
pub fn is_test() -> bool {
    let has = |option: &str| std::env::args().any(|arg| arg == option);
    !has("--bench") || has("--test")
}

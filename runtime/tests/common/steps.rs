/// The steps of a test of memory: `usual`, or more if the variable `MANIPLE_STEPS` says so.
pub fn steps(usual: u64) -> u64 {
    let asked = std::env::var("MANIPLE_STEPS").ok().and_then(|steps| steps.parse().ok());
    asked.unwrap_or(usual).max(usual)
}

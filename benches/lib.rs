//! Benches of the hot paths. CONTRIBUTING.md says what each measures.

//! The documents at the root say what is there: their links lead somewhere, and the README's programs are the examples'.

use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CONTRIBUTING.md", "CHANGELOG.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The targets of `[…](target)` outside code.
fn links(document: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut code = false;
    for line in document.lines() {
        code ^= line.starts_with("```");
        for part in line.split("](").skip(1).filter(|_| !code) {
            links.extend(part.split_once(')').map(|(target, _)| target.to_string()));
        }
    }
    links
}

/// The blocks marked as Rust.
fn programs(document: &str) -> Vec<&str> {
    document.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn links_lead_somewhere() {
    for document in DOCUMENTS {
        for link in links(&text(document)).iter().filter(|link| !link.starts_with("https://")) {
            assert!(root().join(link).exists(), "{document} links to {link}");
        }
    }
}

/// The crates' pages are documentation too, so they also link to items.
#[test]
fn links_of_the_crates_lead_somewhere() {
    let crates = [
        "barriers",
        "collectives",
        "command",
        "experiments",
        "explore",
        "mapper",
        "plugin",
        "regions",
        "runtime",
        "stencil",
    ];
    let pages = crates.map(|name| format!("{name}/README.md")).to_vec();
    let more =
        ["barriers/PROTOCOL.md", "collectives/PROTOCOL.md", "command/machines/README.md", "runtime/src/wire/README.md"];
    for document in pages.into_iter().chain(more.map(String::from)) {
        let directory = root().join(&document).parent().expect("a directory").to_path_buf();
        let is_file =
            |link: &&String| link.contains(['/', '.']) && !link.contains("::") && !link.starts_with("https://");
        for link in links(&text(&document)).iter().filter(is_file) {
            assert!(directory.join(link).exists(), "{document} links to {link}");
        }
    }
}

#[test]
fn files_that_are_named_exist() {
    for document in DOCUMENTS {
        let text = text(document);
        for word in text.split('`').filter(|w| w.contains('/') && (w.ends_with(".rs") || w.ends_with(".md"))) {
            if word.contains(['{', ' ', '\n']) {
                continue;
            }
            // ARCHITECTURE.md leaves out `runtime/src/`.
            let there = root().join(word).exists() || root().join("runtime/src").join(word).exists();
            assert!(there, "{document} names {word}");
        }
    }
}

#[test]
fn the_programs_of_the_readme_are_parts_of_examples() {
    let readme = text("README.md");
    let programs = programs(&readme);
    assert_eq!(programs.len(), 1);
    for (program, example) in programs.into_iter().zip(["sum"]) {
        let source = text(format!("examples/{example}.rs"));
        let mut lines = source.lines();
        for line in program.lines() {
            assert!(
                lines.any(|l| l == line),
                "README.md: `{line}` is not in examples/{example}.rs, or not in this order"
            );
        }
    }
}

#[test]
fn every_example_is_named_in_the_readme_and_in_the_table_of_the_crate() {
    let (readme, table) = (text("README.md"), text("src/lib.rs"));
    for entry in root().join("examples").read_dir().expect("the package has examples") {
        let path = entry.expect("a directory entry").path();
        if path.extension().is_some_and(|e| e == "rs") {
            let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
            assert!(readme.contains(&format!("`{name}`")), "README.md leaves out the example {name}");
            assert!(table.contains(&format!("//! | `{name}` |")), "src/lib.rs leaves out the example {name}");
        }
    }
}

#[test]
fn the_algorithm_of_the_guide_is_the_examples_in_under_40_lines() {
    let (example, chapter) = (text("examples/torus.rs"), text("src/guide/own_algorithm.md"));
    assert!(example.lines().count() < 40, "examples/torus.rs has {} lines", example.lines().count());
    let start = example.find("fn torus").expect("the example has its schedule");
    let end = example.find("\nfn run").expect("the example has its program");
    assert!(chapter.contains(&example[start..end]), "the guide's torus is another one than the example's");
}

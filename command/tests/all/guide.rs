//! The commands in the guide and the README are ones that `maniple` takes: each is given to the command itself, and its words
//! are looked up in the command's help.

use crate::common::guide::{Help, Helps, Shown, every_command_is_known, objection, pages, shown};
use std::fs;

#[test]
fn every_command_in_the_guide_and_the_readme_is_known() {
    every_command_is_known();
}

#[test]
fn every_subcommand_is_in_the_guide_or_the_readme() {
    let mut known = Help::of(&[]).subcommands;
    assert!(known.remove("help") && known.contains("stencil"), "{known:?}");
    for page in pages() {
        for shown in shown(&fs::read_to_string(&page).expect("a page")) {
            let (Shown::Line(arguments) | Shown::Span(arguments)) = shown;
            if let Some(name) = arguments.first() {
                known.remove(name);
            }
        }
    }
    assert!(known.is_empty(), "neither the guide nor the README shows {known:?}");
}

#[test]
fn commands_are_found_and_wrong_ones_are_named() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let page = "Run `maniple machine`:\n\n```text\nX=1 taskset -c 0 maniple stencil --shards 2  # two\ncargo run --bin maniple -- \
                compare mpi --mpirun \"mpirun -n 2\" \\\n  --ranks 3 > out\ncargo test -p maniple --doc\nmaniple: error: no\n```\n\
                ```rust\nmaniple nothing\n```\n";
    let mut compare = words("compare mpi --mpirun");
    compare.extend(["mpirun -n 2", "--ranks", "3"].map(str::to_owned));
    let expected = [Shown::Line(words("stencil --shards 2")), Shown::Line(compare), Shown::Span(words("machine"))];
    assert_eq!(shown(page), expected);

    let mut helps = Helps::default();
    for Shown::Line(arguments) | Shown::Span(arguments) in &expected {
        assert_eq!((helps.unknown(arguments), objection(arguments)), (None, None), "{arguments:?}");
    }
    for (line, named) in [
        ("stencl", "no subcommand `stencl`"),
        ("compare openmp", "no subcommand `openmp`"),
        ("stencil --shard 2", "no option `--shard`"),
        ("machine --iterations 3", "no option `--iterations`"),
        ("compare --ranks 2", "no option `--ranks`"),
    ] {
        let why = helps.unknown(&words(line));
        assert!(why.as_ref().is_some_and(|why| why.contains(named)), "{line}: {why:?}");
        assert!(objection(&words(line)).is_some(), "{line}");
    }
    for line in ["stencil --shards two", "stencil --wire air", "stencil --shards", "stencil 7"] {
        assert!(objection(&words(line)).is_some(), "{line}");
    }
}

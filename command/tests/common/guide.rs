//! Commands in the guide and the README: each is given to the program itself, and its words are looked up in the help.

use super::maniple_with as maniple;
use crate::NAME;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The chapters of the guide, the README, and the page about machines.
pub fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a package of the workspace");
    let chapters = root.join("src/guide").read_dir().expect("the guide");
    let chapters = chapters.map(|entry| entry.expect("a directory entry").path());
    let mut pages: Vec<PathBuf> = chapters.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages.extend(["README.md", "command/machines/README.md"].map(|page| root.join(page)));
    pages
}

/// Commands of the program, each as its arguments.
#[derive(Debug, PartialEq)]
pub enum Shown {
    /// A line of a block: all of it is there, so that it could be run.
    Line(Vec<String>),
    /// A span within a sentence, where a value may be left out or stand for others.
    Span(Vec<String>),
}

/// The commands that a page shows.
pub fn shown(page: &str) -> Vec<Shown> {
    let mut shown = Vec::new();
    let mut prose = String::new();
    // The mark of the block that a line is in.
    let mut block: Option<String> = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(mark) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(mark.to_owned()) };
            continue;
        }
        match block.as_deref() {
            Some("text") => {
                let mut line = line.to_owned();
                while line.ends_with('\\') {
                    line.pop();
                    line += lines.next().unwrap_or_default();
                }
                shown.extend(commands(&line).into_iter().filter_map(|words| arguments(&words)).map(Shown::Line));
            }
            Some(_) => {}
            None => prose += &format!("{line} "),
        }
    }
    let spans = prose.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix(NAME)?.strip_prefix(' '));
    shown.extend(spans.map(|span| Shown::Span(span.split_whitespace().map(str::to_owned).collect())));
    shown
}

/// The words of each command in a line for a shell, without comments and redirections.
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    for c in line.chars() {
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => word.get_or_insert_default().push(c),
            '"' | '\'' => (quote, word) = (Some(c), Some(word.unwrap_or_default())),
            '#' if word.is_none() => break,
            '|' | ';' | '&' | '>' | '<' => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            _ if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    commands.push(words);
    commands
}

/// The arguments of the program, if it is what these words run: by itself, below a program such as `taskset`, or by `cargo run`.
pub fn arguments(words: &[String]) -> Option<Vec<String>> {
    let names = |w: &[String]| ["--bin", "-p"].contains(&&*w[0]) && w[1] == NAME;
    let by_cargo =
        words.windows(2).position(names).and_then(|at| Some(at + words[at..].iter().position(|w| w == "--")? + 1));
    let by_itself = || words.iter().position(|w| w.rsplit('/').next() == Some(NAME)).map(|at| at + 1);
    let is_cargo = words.iter().any(|w| w == "cargo");
    let at = if is_cargo { by_cargo } else { by_itself() }?;
    Some(words[at..].to_vec())
}

/// What the help of `maniple` or of one of its subcommands says there is.
#[derive(Default)]
pub struct Help {
    pub subcommands: BTreeSet<String>,
    options: BTreeSet<String>,
}

impl Help {
    /// A line of the list of commands begins with a name, a line of the options with theirs, or with aliases in brackets.
    pub fn of(path: &[&str]) -> Self {
        let output = maniple(&[path, &["--help"]].concat());
        assert!(output.status.success(), "maniple {path:?} --help: {}", String::from_utf8_lossy(&output.stderr));
        let mut help = Self::default();
        let mut in_commands = false;
        for line in String::from_utf8(output.stdout).expect("UTF-8").lines() {
            if !line.starts_with(' ') {
                in_commands = line == "Commands:" || (in_commands && line.is_empty());
            } else if in_commands {
                // What belongs to the line above is indented further.
                let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
                help.subcommands.extend(name.and_then(|n| n.split(' ').next()).map(str::to_owned));
            } else if line.trim_start().starts_with(['-', '[']) {
                let words = line.split([' ', ',', '[', ']', '=']).filter(|word| word.starts_with('-'));
                help.options.extend(words.map(str::to_owned));
            }
        }
        help
    }
}

/// The help of each subcommand that was asked for.
#[derive(Default)]
pub struct Helps(HashMap<Vec<String>, Help>);

impl Helps {
    pub fn of(&mut self, path: &[&str]) -> &Help {
        let key = path.iter().map(|&s| s.to_owned()).collect();
        self.0.entry(key).or_insert_with(|| Help::of(path))
    }

    /// Why there is no such command, if there is none: an unknown subcommand or option.
    pub fn unknown(&mut self, arguments: &[String]) -> Option<String> {
        let mut path: Vec<&str> = Vec::new();
        let mut arguments = arguments.iter().map(String::as_str).peekable();
        while !self.of(&path).subcommands.is_empty() {
            let Some(name) = arguments.next_if(|word| !word.starts_with('-')) else { break };
            if !self.of(&path).subcommands.contains(name) {
                return Some(format!("no subcommand `{name}`"));
            }
            path.push(name);
        }
        let known = &self.of(&path).options;
        let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
        let unknown = arguments.filter(|word| word.starts_with('-')).map(name).find(|name| !known.contains(name))?;
        Some(format!("`maniple {}` has no option `{unknown}`", path.join(" ")))
    }
}

/// The parser's objection to a command. With `--help` at its end nothing is run, but what stands before it is parsed.
pub fn objection(arguments: &[String]) -> Option<String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).chain(["--help"]).collect();
    let output = maniple(&words);
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Every command of the program in the guide and the README is one that it takes.
pub fn every_command_is_known() {
    let mut helps = Helps::default();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for shown in shown(&text) {
            let why = match &shown {
                Shown::Line(arguments) => helps.unknown(arguments).or_else(|| objection(arguments)),
                Shown::Span(arguments) => helps.unknown(arguments),
            };
            wrong.extend(why.map(|why| format!("{}: {shown:?}: {why}", page.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

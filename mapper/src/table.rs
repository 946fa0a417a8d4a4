//! Tables of algorithms: which one suits which collective.

use crate::{AlgorithmInput, ProcessorId};
use maniple_schedules::{Algorithm, Kind};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Which algorithms suit which collectives, as measured on a machine. `maniple tune` writes the file of a table.
///
/// A row is for a collective if these hold:
///
/// - Its `kind` is the same.
/// - Its `layout` is the same or left out. A row for [`Neighbours`](Layout::Neighbours) is for [`Together`](Layout::Together)
///   too.
/// - Its `nodes` are the same or left out.
/// - Its `shards` and `bytes` are not above the collective's.
///
/// Of these rows the one with the same `layout` counts, else one for [`Neighbours`](Layout::Neighbours), else one without a
/// layout. If there are several, it is the one with the most `shards`. Then a row with `nodes` goes before one without, and
/// then the one with the most `bytes` counts. Its first algorithm that is a [choice](AlgorithmInput::choices) is taken.
/// If it has none, the next row counts. If no row has one, the [built-in table](Self::built_in) decides in the same way, and
/// after it the default.
///
/// ```
/// use maniple_mapper::ChoiceTable;
///
/// let table: ChoiceTable = r#"
///     machine = "a cluster"
///     date = "2026-03-01"
///     command = "maniple tune"
///     [[row]]
///     kind = "broadcast"
///     layout = "apart"
///     nodes = "several"
///     shards = 8
///     bytes = 65536
///     algorithms = ["chain-16", "binomial"]
/// "#.parse().unwrap();
/// assert_eq!(table.rows().len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChoiceTable {
    machine: String,
    date: String,
    command: String,
    #[serde(rename = "row")]
    rows: Vec<Choice>,
}

/// A row of a [`ChoiceTable`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The kind of collective. A barrier is an allreduce of 0 bytes.
    pub kind: Kind,
    /// Where the participants are. `None` stands for any layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// How many nodes they are on. `None` stands for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// The least number of participants, at least 1.
    pub shards: u32,
    /// The least size of the largest value of any participant, in bytes.
    pub bytes: usize,
    /// Algorithms, the best one first. A table that is read may name those that a mapper is offered for the kind.
    pub algorithms: Vec<Algorithm>,
}

/// How the participants of a collective are dealt to processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// There are several, all on one processor.
    Together,
    /// They are on several processors, and two in a row share one.
    Neighbours,
    /// No two in a row share a processor.
    Apart,
}

impl Layout {
    /// The layout of a collective.
    pub fn of(input: &AlgorithmInput<'_>) -> Self {
        let share = |two: &[ProcessorId]| two[0] == two[1];
        let mut pairs = input.placement.windows(2);
        match input.placement.len() {
            2.. if pairs.clone().all(share) => Layout::Together,
            _ if pairs.any(share) => Layout::Neighbours,
            _ => Layout::Apart,
        }
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Together => "together",
            Layout::Neighbours => "neighbours",
            Layout::Apart => "apart",
        }
    }

    /// Whether a row for this layout is for another one.
    fn covers(self, other: Self) -> bool {
        self == other || (self, other) == (Layout::Neighbours, Layout::Together)
    }
}

/// Whether the participants of a collective share an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nodes {
    /// All are on one node.
    One,
    /// They are on several nodes.
    Several,
}

impl Nodes {
    /// The nodes of a collective.
    pub fn of(input: &AlgorithmInput<'_>) -> Self {
        match input.placement.windows(2).all(|two| input.machine.same_node(two[0], two[1])) {
            true => Nodes::One,
            false => Nodes::Several,
        }
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Nodes::One => "one",
            Nodes::Several => "several",
        }
    }
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file could not be read.
    #[error("can't read the table {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A text is no table.
    #[error("expected a table of algorithms as `maniple tune` writes it{}, found this: {message}", in_file(path.as_ref()))]
    Malformed {
        /// The file, if the text is from one.
        path: Option<PathBuf>,
        /// What is wrong.
        message: String,
    },
    /// A row is at fault.
    #[error("row {row} of the table of algorithms{}: {message}", in_file(path.as_ref()))]
    Row {
        /// The file, if the text is from one.
        path: Option<PathBuf>,
        /// The number of the row, from 1.
        row: usize,
        /// What was expected, and what was found.
        message: String,
    },
}

fn in_file(path: Option<&PathBuf>) -> String {
    path.map_or_else(String::new, |path| format!(" in {}", path.display()))
}

impl TableError {
    /// The same error, of a text from a file.
    fn in_file(mut self, file: &Path) -> Self {
        if let TableError::Malformed { path, .. } | TableError::Row { path, .. } = &mut self {
            *path = Some(file.to_owned());
        }
        self
    }
}

impl std::str::FromStr for ChoiceTable {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        /// The rows are looked at one by one, so that an error can say which one it is.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Unchecked {
            machine: String,
            date: String,
            command: String,
            #[serde(default, rename = "row")]
            rows: Vec<toml::Table>,
        }
        let malformed = |e: toml::de::Error| TableError::Malformed { path: None, message: e.to_string() };
        let Unchecked { machine, date, command, rows: unchecked } = toml::from_str(text).map_err(malformed)?;
        let mut rows: Vec<Choice> = Vec::new();
        for (row, table) in (1..).zip(unchecked) {
            let refused = |message: String| TableError::Row { path: None, row, message };
            let choice: Choice = table.try_into().map_err(|e: toml::de::Error| refused(e.message().to_owned()))?;
            choice.check().map_err(refused)?;
            if let Some(other) = rows.iter().position(|other| other.is_for_the_same(&choice)) {
                let other = other + 1;
                let what = "expected another kind, layout, number of nodes or shards, or size than row";
                return Err(refused(format!("{what} {other} has, found the same")));
            }
            rows.push(choice);
        }
        Ok(Self { machine, date, command, rows })
    }
}

impl Choice {
    fn check(&self) -> Result<(), String> {
        if self.kind == Kind::Barrier {
            return Err("kind: expected another one than barrier, which is an allreduce of 0 bytes".into());
        }
        if self.shards == 0 {
            return Err(format!("{}: expected at least one shard, found 0", self.kind));
        }
        if self.algorithms.is_empty() {
            return Err(format!("{}: expected at least one algorithm, found none", self.kind));
        }
        let known: Vec<Algorithm> = Algorithm::of_kind(self.kind).collect();
        if let Some(other) = self.algorithms.iter().find(|algorithm| !known.contains(algorithm)) {
            let known = known.iter().map(Algorithm::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!("{}: expected algorithms among {known}, found `{other}`", self.kind));
        }
        match self.algorithms.iter().enumerate().find(|(at, algorithm)| self.algorithms[..*at].contains(algorithm)) {
            Some((_, twice)) => Err(format!("{}: expected each algorithm once, found {twice} twice", self.kind)),
            None => Ok(()),
        }
    }

    /// Whether both are for the same collectives, so that a table can have one of them only.
    pub fn is_for_the_same(&self, other: &Self) -> bool {
        let of = |row: &Self| (row.layout, row.nodes, row.shards, row.bytes);
        self.kind == other.kind && of(self) == of(other)
    }
}

impl ChoiceTable {
    /// Makes a table. `machine`, `date` and `command` say how it was measured.
    pub fn new(machine: &str, date: &str, command: &str, rows: Vec<Choice>) -> Self {
        Self { machine: machine.into(), date: date.into(), command: command.into(), rows }
    }

    /// The table of mappers that are given no other.
    pub fn built_in() -> &'static Self {
        static TABLE: OnceLock<ChoiceTable> = OnceLock::new();
        TABLE.get_or_init(|| include_str!("stock/choices.toml").parse().expect("it is part of the source"))
    }

    /// Reads the file of a table.
    ///
    /// # Errors
    /// The file can't be read, or is no table.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TableError> {
        let path = path.as_ref();
        let text =
            std::fs::read_to_string(path).map_err(|source| TableError::Unreadable { path: path.to_owned(), source })?;
        text.parse().map_err(|e: TableError| e.in_file(path))
    }

    /// The machine that was measured.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// The day of the measurement.
    pub fn date(&self) -> &str {
        &self.date
    }

    /// The command that measured.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The rows.
    pub fn rows(&self) -> &[Choice] {
        &self.rows
    }

    /// The position of the best choice; see above for the rule.
    pub fn choose(&self, input: &AlgorithmInput<'_>) -> usize {
        self.find(input).or_else(|| Self::built_in().find(input)).unwrap_or(0)
    }

    /// The position of the best choice, if the table has one.
    fn find(&self, input: &AlgorithmInput<'_>) -> Option<usize> {
        let (layout, nodes, shards) = (Layout::of(input), Nodes::of(input), input.placement.len());
        let suits = |row: &&Choice| {
            let here = row.layout.is_none_or(|of| of.covers(layout)) && row.nodes.is_none_or(|of| of == nodes);
            row.kind == input.kind && here && row.shards as usize <= shards && row.bytes <= input.bytes
        };
        let mut rows: Vec<&Choice> = self.rows.iter().filter(suits).collect();
        rows.sort_by_key(|row| {
            let layouts = (row.layout == Some(layout), row.layout.is_some());
            Reverse((layouts, row.shards, row.nodes.is_some(), row.bytes))
        });
        let position = |&algorithm: &Algorithm| input.choices.iter().position(|&choice| choice == algorithm);
        rows.into_iter().flat_map(|row| &row.algorithms).find_map(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    fn algorithms(names: &[&str]) -> Vec<Algorithm> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn chosen(table: &ChoiceTable, kind: &str, processors: &[u32], bytes: usize, choices: &[&str]) -> String {
        let placement: Vec<ProcessorId> = processors.iter().map(|&p| ProcessorId(p)).collect();
        let machine = &Machine::new(8, 4);
        let (kind, choices) = (kind.parse().unwrap(), &algorithms(choices)[..]);
        let input = AlgorithmInput { collective: "it", kind, placement: &placement, bytes, choices, machine };
        choices[table.choose(&input)].to_string()
    }

    type Row<'a> = (&'a str, Option<Layout>, Option<Nodes>, u32, usize, &'a [&'a str]);

    fn table(rows: &[Row<'_>]) -> ChoiceTable {
        let row = |&(kind, layout, nodes, shards, bytes, algorithms): &Row<'_>| Choice {
            kind: kind.parse().unwrap(),
            layout,
            nodes,
            shards,
            bytes,
            algorithms: algorithms.iter().map(|name| name.parse().unwrap()).collect(),
        };
        ChoiceTable::new("a machine", "a day", "a command", rows.iter().map(row).collect())
    }

    const TOGETHER: Option<Layout> = Some(Layout::Together);
    const NEIGHBOURS: Option<Layout> = Some(Layout::Neighbours);
    const APART: Option<Layout> = Some(Layout::Apart);

    #[test]
    fn the_nearest_row_below_counts() {
        let table = table(&[
            ("allreduce", APART, None, 1, 0, &["direct"]),
            ("allreduce", APART, None, 1, 100, &["sliced"]),
            ("allreduce", APART, None, 4, 0, &["two-level", "halving-doubling"]),
            ("allreduce", NEIGHBOURS, None, 1, 0, &["radix-4"]),
            ("scan", APART, None, 1, 0, &["ring"]),
        ]);
        let all = ["radix-2", "ring", "radix-4", "halving-doubling", "two-level", "sliced", "direct"];
        let of = |kind, processors: &[u32], bytes| chosen(&table, kind, processors, bytes, &all);
        assert_eq!(of("allreduce", &[0, 1], 99), "direct");
        assert_eq!(of("allreduce", &[0, 1], 100), "sliced");
        assert_eq!(of("allreduce", &[0, 1, 2, 3], 1000), "two-level");
        assert_eq!(of("allreduce", &[0, 1, 2, 3, 3], 1000), "radix-4");
        assert_eq!(of("allreduce", &[3, 3], 1000), "radix-4");
        assert_eq!(of("scan", &[0], 0), "ring");
        assert_eq!(of("gather", &[0], 0), "radix-2");
        // What is no choice does not count.
        assert_eq!(
            chosen(&table, "allreduce", &[0, 1, 2, 3], 1000, &["radix-2", "halving-doubling", "sliced"]),
            "halving-doubling"
        );
        assert_eq!(chosen(&table, "allreduce", &[0, 1, 2, 3], 1000, &["radix-2", "sliced", "direct"]), "sliced");
        assert_eq!(chosen(&table, "allreduce", &[0, 1, 2, 3], 1000, &["radix-2", "radix-16"]), "radix-2");
    }

    /// The machine has two nodes of four processors.
    #[test]
    fn a_row_for_the_very_layout_and_nodes_goes_first() {
        let table = table(&[
            ("scan", None, None, 2, 0, &["binomial"]),
            ("scan", None, Some(Nodes::Several), 2, 0, &["chain-4"]),
            ("scan", NEIGHBOURS, None, 2, 0, &["bruck"]),
            ("scan", TOGETHER, Some(Nodes::One), 3, 0, &["direct"]),
        ]);
        let all = ["radix-2", "binomial", "chain-4", "bruck", "direct"];
        let of = |processors: &[u32]| chosen(&table, "scan", processors, 8, &all);
        assert_eq!(of(&[0]), "radix-2");
        assert_eq!(of(&[0, 3]), "binomial");
        assert_eq!(of(&[0, 4]), "chain-4");
        assert_eq!(of(&[0, 0, 4]), "bruck");
        assert_eq!(of(&[1, 1]), "bruck");
        assert_eq!(of(&[1, 1, 1]), "direct");
    }

    #[test]
    fn shards_go_before_nodes_and_nodes_before_bytes() {
        let table = table(&[
            ("scan", None, None, 2, 100, &["chain-16"]),
            ("scan", None, Some(Nodes::Several), 2, 0, &["chain-4"]),
            ("scan", None, None, 3, 0, &["chain-64"]),
        ]);
        let of = |processors: &[u32]| chosen(&table, "scan", processors, 100, &["chain-64", "chain-4", "chain-16"]);
        assert_eq!(of(&[0, 1]), "chain-16");
        assert_eq!(of(&[0, 4]), "chain-4");
        assert_eq!(of(&[0, 4, 5]), "chain-64");
    }

    #[test]
    fn the_built_in_table_knows_what_another_one_does_not() {
        let other = &table(&[("allreduce", APART, None, 2, 0, &["radix-8"])]);
        let all = ["recursive-doubling", "two-level", "halving-doubling"];
        for table in [other, ChoiceTable::built_in()] {
            let of = |processors: &[u32], bytes| chosen(table, "allreduce", processors, bytes, &all);
            assert_eq!(of(&[0, 0, 1, 1], 8), "two-level");
            assert_eq!(of(&[0, 0], 8), "two-level");
            assert_eq!(of(&[0, 1, 2], 8), "recursive-doubling");
            assert_eq!(of(&[0, 1, 2], 1 << 20), "halving-doubling");
            assert_eq!(of(&[0, 1], 1 << 20), "recursive-doubling");
            assert_eq!(of(&[0], 1 << 20), "recursive-doubling");
        }
    }

    /// Measured: see the head of the table.
    #[test]
    fn the_built_in_table_has_what_was_measured() {
        const SUMS: &[&str] = &[
            "recursive-doubling",
            "two-level",
            "radix-4",
            "halving-doubling",
            "sliced",
            "direct",
            "dissemination-3",
            "dissemination-4",
            "radix-8",
            "dissemination-5",
            "dissemination-7",
        ];
        // What a sum of floats may use.
        const FLOATS: &[&str] =
            &["recursive-doubling", "two-level", "radix-4", "halving-doubling", "sliced", "direct", "radix-8"];
        // More than 64 shards are offered no algorithm in which each combines the values of all.
        const MANY: &[&str] = &["recursive-doubling", "two-level", "radix-4", "halving-doubling", "radix-8"];
        const NEWS: &[&str] = &["binomial", "chain-16", "direct", "chain-4", "chain-64"];
        let of = |machine: Machine, shards: u32, kind, bytes, choices: &[&str]| {
            let placement: Vec<_> = (0..shards).map(|s| ProcessorId(s * machine.processors() / shards)).collect();
            let (kind, choices) = (str::parse(kind).unwrap(), &algorithms(choices)[..]);
            let input =
                AlgorithmInput { collective: "it", kind, placement: &placement, bytes, choices, machine: &machine };
            choices[ChoiceTable::built_in().choose(&input)].to_string()
        };
        // Two threads.
        for (kind, shards, bytes, choices, expected) in [
            ("allreduce", 2, 8, SUMS, "recursive-doubling"),
            ("allreduce", 2, 1 << 20, SUMS, "recursive-doubling"),
            ("allreduce", 8, 1 << 20, SUMS, "two-level"),
            ("allreduce", 3, 8, SUMS, "two-level"),
            ("allreduce", 512, 8, MANY, "two-level"),
            // Groups of 3 give a sum of floats other bits.
            ("allreduce", 6, 8, &["recursive-doubling", "radix-4"], "recursive-doubling"),
            ("broadcast", 8, 8, NEWS, "binomial"),
            ("broadcast", 8, 1 << 20, NEWS, "binomial"),
            ("broadcast", 100, 1 << 20, NEWS, "binomial"),
            ("all-to-all", 8, 8 << 16, &["bruck", "direct"], "direct"),
            ("all-to-all", 64, 512, &["bruck", "direct"], "direct"),
            ("all-to-all", 100, 800, &["bruck", "direct"], "direct"),
            ("all-to-all", 2000, 16000, &["bruck"], "bruck"),
            ("allgather", 8, 64, &["bruck", "ring", "direct"], "bruck"),
            ("allgather", 8, 8 << 13, &["bruck", "ring", "direct"], "direct"),
            ("allgather", 100, 100 << 13, &["bruck", "ring", "direct"], "bruck"),
            ("allgather", 2, 2 << 15, &["bruck", "direct", "two-level"], "direct"),
            ("allgather", 2, 2 << 19, &["bruck", "direct", "two-level"], "two-level"),
            ("allgather", 8, 64, &["bruck", "direct", "two-level"], "two-level"),
            ("reduce-scatter", 2, 16, &["halving", "direct"], "direct"),
            ("reduce-scatter", 8, 8 << 3, &["halving", "direct"], "direct"),
            ("reduce-scatter", 8, 8 << 9, &["halving", "direct"], "halving"),
            ("reduce-scatter", 8, 8 << 13, &["halving", "direct"], "direct"),
            ("reduce-scatter", 16, 16 << 11, &["halving", "direct"], "halving"),
            ("reduce-scatter", 16, 16 << 13, &["halving", "direct"], "direct"),
            ("reduce-scatter", 32, 32 << 3, &["halving", "direct"], "halving"),
            ("reduce-scatter", 32, 32 << 12, &["halving", "direct"], "halving"),
            ("reduce-scatter", 32, 32 << 13, &["halving", "direct"], "direct"),
            ("reduce-scatter", 48, 48 << 12, &["halving", "direct"], "halving"),
            ("reduce-scatter", 64, 64 << 13, &["halving", "direct"], "direct"),
            ("reduce-scatter", 64, 64 << 13, &["direct"], "direct"),
            ("reduce-scatter", 100, 1 << 20, &["halving"], "halving"),
            ("gather", 4, 4 << 13, &["binomial", "direct"], "binomial"),
            ("gather", 8, 8 << 11, &["binomial", "direct"], "binomial"),
            ("gather", 8, 8 << 13, &["binomial", "direct"], "direct"),
            ("gather", 64, 64 << 11, &["binomial", "direct"], "binomial"),
            ("gather", 64, 64 << 13, &["binomial", "direct"], "direct"),
            ("scatter", 2, 1 << 20, &["binomial", "direct"], "binomial"),
            ("scatter", 4, 4 << 13, &["binomial", "direct"], "binomial"),
            ("scatter", 8, 8 << 11, &["binomial", "direct"], "binomial"),
            ("scatter", 8, 8 << 13, &["binomial", "direct"], "direct"),
            ("scatter", 8, 8 << 16, &["binomial", "direct"], "direct"),
            ("exscan", 8, 8, &["recursive-doubling", "direct"], "recursive-doubling"),
            ("exscan", 8, 1 << 12, &["recursive-doubling", "direct"], "direct"),
            ("exscan", 12, 1 << 12, &["recursive-doubling", "direct"], "recursive-doubling"),
            ("exscan", 12, 1 << 16, &["recursive-doubling", "direct"], "direct"),
            ("exscan", 32, 1 << 20, &["recursive-doubling", "direct"], "recursive-doubling"),
            ("reduce", 8, 8, &["recursive-doubling", "direct"], "recursive-doubling"),
        ] {
            assert_eq!(of(Machine::new(2, 2), shards, kind, bytes, choices), expected, "{kind} {shards} {bytes}");
        }
        // As many threads as shards.
        for (shards, bytes, choices, expected) in
            [(3, 8, SUMS, "recursive-doubling"), (3, 1 << 20, SUMS, "sliced"), (100, 1 << 20, MANY, "halving-doubling")]
        {
            assert_eq!(
                of(Machine::new(shards, shards), shards, "allreduce", bytes, choices),
                expected,
                "{shards} {bytes}"
            );
        }
        // As many nodes.
        for (kind, shards, bytes, choices, expected) in [
            ("allreduce", 2, 8, SUMS, "recursive-doubling"),
            ("allreduce", 2, 1 << 20, SUMS, "recursive-doubling"),
            ("allreduce", 3, 8, SUMS, "direct"),
            ("allreduce", 16, 8, FLOATS, "direct"),
            ("allreduce", 8, 1 << 13, SUMS, "dissemination-7"),
            ("allreduce", 12, 1 << 13, SUMS, "dissemination-3"),
            ("allreduce", 8, 1 << 13, FLOATS, "radix-4"),
            ("allreduce", 8, 1 << 14, FLOATS, "sliced"),
            ("allreduce", 8, 1 << 20, SUMS, "sliced"),
            ("allreduce", 24, 8, SUMS, "dissemination-5"),
            ("allreduce", 24, 8, FLOATS, "radix-4"),
            ("allreduce", 24, 1 << 13, SUMS, "dissemination-5"),
            ("allreduce", 24, 1 << 15, SUMS, "sliced"),
            ("allreduce", 64, 8, SUMS, "dissemination-7"),
            ("allreduce", 64, 8, FLOATS, "radix-8"),
            ("allreduce", 64, 1 << 12, SUMS, "dissemination-3"),
            ("allreduce", 64, 1 << 14, FLOATS, "recursive-doubling"),
            ("allreduce", 64, 1 << 15, SUMS, "halving-doubling"),
            ("allreduce", 64, 1 << 16, SUMS, "halving-doubling"),
            ("allreduce", 64, 1 << 20, SUMS, "sliced"),
            ("allreduce", 96, 8, SUMS, "radix-8"),
            ("allreduce", 96, 1 << 12, SUMS, "dissemination-4"),
            ("allreduce", 96, 1 << 15, SUMS, "halving-doubling"),
            ("allreduce", 200, 8, SUMS, "dissemination-7"),
            ("allreduce", 200, 1 << 12, SUMS, "dissemination-3"),
            ("allreduce", 512, 8, MANY, "radix-8"),
            ("allreduce", 512, 1 << 20, MANY, "halving-doubling"),
            ("broadcast", 2, 8, NEWS, "binomial"),
            ("broadcast", 2, 1 << 16, NEWS, "chain-4"),
            ("broadcast", 32, 8, NEWS, "direct"),
            ("broadcast", 16, 1 << 15, NEWS, "binomial"),
            ("broadcast", 16, 1 << 18, NEWS, "chain-16"),
            ("broadcast", 16, 1 << 20, NEWS, "chain-64"),
            ("broadcast", 64, 8, NEWS, "direct"),
            ("broadcast", 64, 1 << 12, NEWS, "binomial"),
            ("broadcast", 64, 1 << 18, NEWS, "binomial"),
            ("broadcast", 200, 8, NEWS, "binomial"),
            ("broadcast", 200, 1 << 20, NEWS, "chain-64"),
            ("all-to-all", 8, 8 << 16, &["bruck", "direct"], "direct"),
            ("all-to-all", 48, 48 << 3, &["bruck", "direct"], "direct"),
            ("all-to-all", 64, 64 << 3, &["bruck", "direct"], "bruck"),
            ("all-to-all", 64, 64 << 8, &["bruck", "direct"], "direct"),
            ("all-to-all", 64, 64 << 13, &["bruck", "direct"], "direct"),
            ("all-to-all", 96, 96 << 7, &["bruck", "direct"], "bruck"),
            ("all-to-all", 96, 96 << 9, &["bruck", "direct"], "direct"),
            ("all-to-all", 200, 200 << 7, &["bruck", "direct"], "bruck"),
            ("all-to-all", 200, 200 << 9, &["bruck", "direct"], "direct"),
            ("all-to-all", 512, 512 << 7, &["bruck", "direct"], "bruck"),
            ("all-to-all", 512, 512 << 9, &["bruck", "direct"], "direct"),
            ("all-to-all", 2000, 2000 << 13, &["bruck"], "bruck"),
            ("allgather", 2, 16, &["bruck", "ring", "direct"], "bruck"),
            ("allgather", 8, 64, &["bruck", "ring", "direct"], "direct"),
            ("allgather", 64, 512, &["bruck", "ring", "direct"], "bruck"),
            ("allgather", 64, 1 << 19, &["bruck", "ring", "direct"], "direct"),
            ("allgather", 96, 96 << 10, &["bruck", "ring", "direct"], "bruck"),
            ("allgather", 96, 96 << 13, &["bruck", "ring", "direct"], "direct"),
            ("allgather", 256, 256 << 12, &["bruck", "ring", "direct"], "bruck"),
            ("allgather", 256, 256 << 15, &["bruck", "ring", "direct"], "direct"),
            ("reduce-scatter", 16, 16 << 9, &["halving", "direct"], "direct"),
            ("reduce-scatter", 56, 56 << 11, &["halving", "direct"], "direct"),
            ("reduce-scatter", 64, 64 << 3, &["halving", "direct"], "halving"),
            ("reduce-scatter", 64, 64 << 11, &["halving", "direct"], "direct"),
            ("gather", 64, 512, &["binomial", "direct"], "direct"),
            ("gather", 512, 4096, &["binomial", "direct"], "direct"),
            ("scatter", 4, 32, &["binomial", "direct"], "direct"),
            ("scatter", 256, 256 << 3, &["binomial", "direct"], "binomial"),
            ("scatter", 256, 256 << 10, &["binomial", "direct"], "direct"),
            ("reduce", 8, 8, &["recursive-doubling", "direct"], "recursive-doubling"),
            ("scan", 3, 1 << 13, &["recursive-doubling", "direct"], "direct"),
            ("scan", 8, 8, &["recursive-doubling", "direct"], "direct"),
            ("scan", 8, 1 << 15, &["recursive-doubling", "direct"], "recursive-doubling"),
            ("scan", 20, 8, &["recursive-doubling", "direct"], "direct"),
            ("exscan", 4, 1 << 13, &["recursive-doubling", "direct"], "direct"),
            ("exscan", 8, 1 << 13, &["recursive-doubling", "direct"], "recursive-doubling"),
            ("exscan", 32, 8, &["recursive-doubling", "direct"], "recursive-doubling"),
        ] {
            assert_eq!(of(Machine::new(shards, 1), shards, kind, bytes, choices), expected, "{kind} {shards} {bytes}");
        }
        // Several shards on each of eight processors and nodes.
        for (shards, bytes, expected) in
            [(64, 64 << 3, "direct"), (96, 96 << 7, "bruck"), (256, 256 << 3, "bruck"), (256, 256 << 12, "direct")]
        {
            let machine = Machine::new(8, 1);
            assert_eq!(of(machine, shards, "all-to-all", bytes, &["bruck", "direct"]), expected, "{shards} {bytes}");
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let made = table(&[
            ("all-to-all", NEIGHBOURS, Some(Nodes::One), 3, 12, &["bruck", "direct"]),
            ("all-to-all", None, None, 3, 12, &["direct"]),
        ]);
        let text = toml::to_string(&made).unwrap();
        let read: ChoiceTable = text.parse().unwrap();
        assert_eq!(read, made);
        assert_eq!((read.machine(), read.date(), read.command()), ("a machine", "a day", "a command"));
        assert!(!ChoiceTable::built_in().rows().is_empty());
        assert_eq!("machine = 'm'\ndate = 'd'\ncommand = 'c'".parse::<ChoiceTable>().unwrap().rows(), []);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let head = "machine = \"m\"\ndate = \"d\"\ncommand = \"c\"\n";
        let row = "[[row]]\nkind = \"scan\"\nlayout = \"apart\"\nshards = 1\nbytes = 0\nalgorithms = [\"direct\"]\n";
        let other = row.replace("bytes = 0", "bytes = 1");
        // Each is wrong in its last row, the second one.
        for (from, to, expected) in [
            ("[\"direct\"]", "[]", "scan: expected at least one algorithm, found none"),
            (
                "[\"direct\"]",
                "[\"direct\", \"recursive-doubling\", \"direct\"]",
                "scan: expected each algorithm once, found direct twice",
            ),
            ("direct", "star", "unknown collective algorithm `star`, expected one of: recursive-doubling, two-level,"),
            ("direct", "ring", "scan: expected algorithms among recursive-doubling, direct, found `ring`"),
            (
                "\"scan\"",
                "\"foo\"",
                "unknown kind of collective `foo`, expected one of allreduce, reduce, reduce-scatter, scan, exscan,",
            ),
            ("\"scan\"", "\"barrier\"", "kind: expected another one than barrier, which is an allreduce of 0 bytes"),
            ("[\"direct\"]", "3", "invalid type: integer `3`, expected a sequence"),
            ("shards = 1", "shards = 0", "scan: expected at least one shard, found 0"),
            ("shards = 1", "shards = -1", "invalid value: integer `-1`, expected u32"),
            ("shards = 1\n", "", "missing field `shards`"),
            ("shards = 1", "size = 1", "unknown field `size`, expected one of `kind`, `layout`, `nodes`, `shards`"),
            ("apart", "near", "unknown variant `near`, expected one of `together`, `neighbours`, `apart`"),
            ("\"scan\"", "\"\"", "unknown kind of collective ``, expected one of allreduce"),
            (
                "bytes = 0",
                "bytes = 1",
                "expected another kind, layout, number of nodes or shards, or size than row 1 has",
            ),
        ] {
            let text = format!("{head}{other}{}", row.replace(from, to));
            let said = text.parse::<ChoiceTable>().unwrap_err().to_string();
            assert!(said.starts_with(&format!("row 2 of the table of algorithms: {expected}")), "{said}");
        }
        let refused = |text: &str| text.parse::<ChoiceTable>().unwrap_err().to_string();
        for (text, expected) in [
            ("machine = 3".into(), "invalid type: integer `3`, expected a string"),
            ("machine = ".into(), "line 1, column 11"),
            ("machine = 'm'\ncommand = 'c'".into(), "missing field `date`"),
            (format!("{head}rows = 3"), "unknown field `rows`"),
            (format!("{head}row = 3"), "invalid type: integer `3`"),
        ] {
            let said = refused(&text);
            assert!(said.starts_with("expected a table of algorithms") && said.contains(expected), "{said}");
        }
    }

    #[test]
    fn errors_name_the_file() {
        let missing = ChoiceTable::read("/nowhere/table.toml").unwrap_err().to_string();
        assert!(missing.starts_with("can't read the table /nowhere/table.toml: "), "{missing}");
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, expected) in [
            ("machine = 3", "expected a table of algorithms as `maniple tune` writes it in FILE, found this: "),
            (
                "machine = 'm'\ndate = 'd'\ncommand = 'c'\n[[row]]\nkind = 3",
                "row 1 of the table of algorithms in FILE: invalid type: integer `3`, expected a string",
            ),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let said = ChoiceTable::read(file.path()).unwrap_err().to_string();
            let said = said.replace(&file.path().display().to_string(), "FILE");
            assert!(said.starts_with(expected), "{said}");
        }
    }
}

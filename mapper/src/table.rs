//! Tables of algorithms: which one suits which collective.

use crate::AlgorithmInput;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Which algorithms suit which collectives, as measured on a machine. `maniple tune` writes the file of a table.
///
/// The rule of a lookup: of the rows for the kind of collective and the layout whose `shards` and `bytes` are not above
/// those that are asked for, the one with the most shards counts, and among these the one with the most bytes. Its first
/// algorithm that is a choice is taken. If none is, the next row counts. If no row has one, the default is taken.
///
/// ```
/// use maniple_mapper::ChoiceTable;
///
/// let table: ChoiceTable = r#"
///     machine = "a cluster"
///     command = "maniple tune"
///     [[row]]
///     kind = "broadcast"
///     layout = "apart"
///     shards = 8
///     bytes = 65536
///     algorithms = ["chain-16", "binomial"]
/// "#.parse().unwrap();
/// assert_eq!(table.rows().len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChoiceTable {
    machine: String,
    command: String,
    #[serde(default, rename = "row")]
    rows: Vec<Choice>,
}

/// A row of a [`ChoiceTable`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The kind of collective, such as `allreduce`.
    pub kind: String,
    /// Where the participants are.
    pub layout: Layout,
    /// The least number of participants.
    pub shards: u32,
    /// The least size of the largest value of any participant, in bytes.
    pub bytes: usize,
    /// The names of algorithms, the best one first.
    pub algorithms: Vec<String>,
}

/// Where the participants of a collective are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Two participants in a row share a processor.
    Neighbours,
    /// None do.
    Apart,
}

impl Layout {
    /// The layout of a collective.
    pub fn of(input: &AlgorithmInput<'_>) -> Self {
        match input.placement.windows(2).any(|two| two[0] == two[1]) {
            true => Layout::Neighbours,
            false => Layout::Apart,
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
    #[error("expected a table of algorithms as `maniple tune` writes it, found this: {0}")]
    Malformed(String),
    /// A row has no algorithm.
    #[error("row {row} of the table of algorithms, for {kind}: expected at least one algorithm, found none")]
    Empty {
        /// The number of the row, from 1.
        row: usize,
        /// Its kind of collective.
        kind: String,
    },
}

impl std::str::FromStr for ChoiceTable {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        let table: Self = toml::from_str(text).map_err(|e| TableError::Malformed(e.to_string()))?;
        match (1..).zip(&table.rows).find(|(_, row)| row.algorithms.is_empty()) {
            Some((row, empty)) => Err(TableError::Empty { row, kind: empty.kind.clone() }),
            None => Ok(table),
        }
    }
}

impl ChoiceTable {
    /// Makes a table. `machine` and `command` say how it was measured.
    pub fn new(machine: &str, command: &str, rows: Vec<Choice>) -> Self {
        Self { machine: machine.into(), command: command.into(), rows }
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
    pub fn read(path: &Path) -> Result<Self, TableError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| TableError::Unreadable { path: path.to_owned(), source })?;
        text.parse()
    }

    /// The rows.
    pub fn rows(&self) -> &[Choice] {
        &self.rows
    }

    /// The position of the best choice; see above for the rule.
    pub fn choose(&self, input: &AlgorithmInput<'_>) -> usize {
        let (layout, shards) = (Layout::of(input), input.placement.len());
        let suits = |row: &&Choice| {
            let is_for = row.kind == input.kind && row.layout == layout;
            is_for && row.shards as usize <= shards && row.bytes <= input.bytes
        };
        let mut rows: Vec<&Choice> = self.rows.iter().filter(suits).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.shards, row.bytes)));
        let position = |name: &String| input.choices.iter().position(|choice| choice == name);
        rows.into_iter().flat_map(|row| &row.algorithms).find_map(position).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, ProcessorId};

    fn chosen(table: &ChoiceTable, kind: &str, processors: &[u32], bytes: usize, choices: &[&str]) -> String {
        let placement: Vec<ProcessorId> = processors.iter().map(|&p| ProcessorId(p)).collect();
        let machine = &Machine::new(8, 8);
        let input = AlgorithmInput { collective: "it", kind, placement: &placement, bytes, choices, machine };
        choices[table.choose(&input)].into()
    }

    fn table(rows: &[(&str, Layout, u32, usize, &[&str])]) -> ChoiceTable {
        let row = |&(kind, layout, shards, bytes, algorithms): &(&str, Layout, u32, usize, &[&str])| Choice {
            kind: kind.into(),
            layout,
            shards,
            bytes,
            algorithms: algorithms.iter().map(|&name| name.into()).collect(),
        };
        ChoiceTable::new("a machine", "a command", rows.iter().map(row).collect())
    }

    #[test]
    fn the_nearest_row_below_counts() {
        let table = table(&[
            ("allreduce", Layout::Apart, 1, 0, &["a"]),
            ("allreduce", Layout::Apart, 1, 100, &["b"]),
            ("allreduce", Layout::Apart, 4, 0, &["c", "d"]),
            ("allreduce", Layout::Neighbours, 1, 0, &["e"]),
            ("scan", Layout::Apart, 1, 0, &["f"]),
        ]);
        let all = ["x", "f", "e", "d", "c", "b", "a"];
        let of = |kind, processors: &[u32], bytes| chosen(&table, kind, processors, bytes, &all);
        assert_eq!(of("allreduce", &[0, 1], 99), "a");
        assert_eq!(of("allreduce", &[0, 1], 100), "b");
        assert_eq!(of("allreduce", &[0, 1, 2, 3], 1000), "c");
        assert_eq!(of("allreduce", &[0, 1, 2, 3, 3], 1000), "e");
        assert_eq!(of("scan", &[0], 0), "f");
        assert_eq!(of("gather", &[0], 0), "x");
        // What is no choice does not count.
        assert_eq!(chosen(&table, "allreduce", &[0, 1, 2, 3], 1000, &["x", "d", "b"]), "d");
        assert_eq!(chosen(&table, "allreduce", &[0, 1, 2, 3], 1000, &["x", "b", "a"]), "b");
        assert_eq!(chosen(&table, "allreduce", &[0, 1, 2, 3], 1000, &["x", "y"]), "x");
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let made = table(&[("all-to-all", Layout::Neighbours, 3, 12, &["bruck", "direct"])]);
        let text = toml::to_string(&made).unwrap();
        assert_eq!(text.parse::<ChoiceTable>().unwrap(), made);
        assert!(!ChoiceTable::built_in().rows().is_empty());
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let refused = |text: &str| text.parse::<ChoiceTable>().unwrap_err().to_string();
        let row =
            "machine = \"m\"\ncommand = \"c\"\n[[row]]\nkind = \"scan\"\nlayout = \"apart\"\nshards = 1\nbytes = 0\n";
        let empty = refused(&format!("{row}algorithms = []"));
        assert_eq!(empty, "row 1 of the table of algorithms, for scan: expected at least one algorithm, found none");
        let wrong = refused(&format!("{row}algorithms = [\"a\"]\nsize = 3"));
        assert!(wrong.contains("unknown field `size`") && wrong.contains("line 9"), "{wrong}");
        let layout = refused(&row.replace("apart", "near"));
        assert!(layout.contains("unknown variant `near`"), "{layout}");
        assert!(refused("machine = 3").contains("expected a table of algorithms"));
        let missing = ChoiceTable::read(Path::new("/nowhere/table.toml")).unwrap_err().to_string();
        assert!(missing.starts_with("can't read the table /nowhere/table.toml: "), "{missing}");
    }
}

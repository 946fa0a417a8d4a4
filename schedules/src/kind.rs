//! The kinds of collectives.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of collective. Its name is in lower case with hyphens, such as `reduce-scatter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Kind {
    /// The contributors receive the combination of their contributions.
    Allreduce,
    /// The receivers get the combination. They are not the same set as the contributors: then it is an allreduce.
    Reduce,
    /// Each receiver gets its block of the combination.
    ReduceScatter,
    /// Each receiver gets the combination of the contributions up to its own.
    Scan,
    /// Each receiver gets the combination of the contributions before its own.
    Exscan,
    /// The receivers get the contribution of one rank.
    Broadcast,
    /// The receivers get the blocks of all contributors. They are not the same set as the contributors: then it is an allgather.
    Gather,
    /// The contributors receive the blocks of all.
    Allgather,
    /// Each receiver gets its block of the contribution of one rank.
    Scatter,
    /// Each contributor has a block for each receiver.
    AllToAll,
    /// The receivers learn that all contributors have arrived. Its [`Goal`](crate::Goal) is the goal of an allreduce or
    /// a reduction of nothing.
    Barrier,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 11] = [
        Kind::Allreduce,
        Kind::Reduce,
        Kind::ReduceScatter,
        Kind::Scan,
        Kind::Exscan,
        Kind::Broadcast,
        Kind::Gather,
        Kind::Allgather,
        Kind::Scatter,
        Kind::AllToAll,
        Kind::Barrier,
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Allreduce => "allreduce",
            Kind::Reduce => "reduce",
            Kind::ReduceScatter => "reduce-scatter",
            Kind::Scan => "scan",
            Kind::Exscan => "exscan",
            Kind::Broadcast => "broadcast",
            Kind::Gather => "gather",
            Kind::Allgather => "allgather",
            Kind::Scatter => "scatter",
            Kind::AllToAll => "all-to-all",
            Kind::Barrier => "barrier",
        }
    }

    /// What it does, in a line without a full stop, as in help texts.
    pub fn about(self) -> &'static str {
        match self {
            Kind::Allreduce => "All participants receive the combination of their contributions",
            Kind::Reduce => "Some receivers get the combination",
            Kind::ReduceScatter => "Each receiver gets its block of the combination",
            Kind::Scan => "Each receiver gets the combination of the contributions up to its own place",
            Kind::Exscan => "Each receiver gets the combination of the contributions before its own place",
            Kind::Broadcast => "Receivers get the contribution of one shard",
            Kind::Gather => "Some receivers get the blocks of all participants",
            Kind::Allgather => "All participants receive the blocks of all",
            Kind::Scatter => "Each receiver gets its block of one shard's contribution",
            Kind::AllToAll => "Each participant has a block for each receiver",
            Kind::Barrier => "Receivers learn that all participants have arrived",
        }
    }

    /// The name with its article, such as `an allreduce`.
    pub fn named(self) -> String {
        let name = self.name();
        format!("{} {name}", if name.starts_with(['a', 'e']) { "an" } else { "a" })
    }

    /// Whether contributions are combined by an operator. In a barrier they are nothing, so no operator matters.
    pub fn combines(self) -> bool {
        matches!(self, Kind::Allreduce | Kind::Reduce | Kind::ReduceScatter | Kind::Scan | Kind::Exscan)
    }

    /// Whether one rank contributes.
    pub fn has_root(self) -> bool {
        matches!(self, Kind::Broadcast | Kind::Scatter)
    }

    /// Whether a contribution has a block for each receiver.
    pub fn has_block_for_each_receiver(self) -> bool {
        matches!(self, Kind::ReduceScatter | Kind::Scatter | Kind::AllToAll)
    }

    /// Whether a result has a block of each contributor.
    pub fn has_block_of_each_contributor(self) -> bool {
        matches!(self, Kind::Gather | Kind::Allgather | Kind::AllToAll)
    }

    /// Whether contributions or results consist of one block for each contributor or receiver.
    pub fn has_blocks(self) -> bool {
        self.has_block_for_each_receiver() || self.has_block_of_each_contributor()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that belongs to no [`Kind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of collective `{came}`, expected one of {}", Kind::ALL.map(Kind::name).join(", "))]
pub struct UnknownKind {
    /// The name that was given.
    pub came: String,
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownKind { came: name.into() })
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> String {
        kind.name().into()
    }
}

impl TryFrom<String> for Kind {
    type Error = UnknownKind;

    fn try_from(name: String) -> Result<Self, UnknownKind> {
        name.parse()
    }
}

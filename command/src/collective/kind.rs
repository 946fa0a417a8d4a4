//! Kinds of collectives, and the shards that take part.

use crate::Failure;
use crate::options::algorithm;
use crate::options::ranks::ShardList;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use maniple_collectives::{Algorithm, Goal, Kind, Ranks};

/// The values of `--kind`.
pub fn kinds() -> impl TypedValueParser<Value = Kind> {
    let values = Kind::ALL.map(|kind| PossibleValue::new(kind.name()).help(kind.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Kind>())
}

/// Who contributes if nobody is named.
fn usual_participants(kind: Kind, shards: u32) -> Ranks {
    if kind.has_root() { Ranks::one(0) } else { Ranks::all(shards) }
}

/// Who receives if nobody is named.
fn usual_receivers(kind: Kind, shards: u32, participants: &Ranks) -> Ranks {
    match kind {
        Kind::Broadcast | Kind::Scatter => Ranks::all(shards),
        Kind::Reduce | Kind::Gather => Ranks::one(0),
        _ => participants.clone(),
    }
}

/// The kind to use instead if receivers are named, for a kind that all participants receive.
fn with_receivers(kind: Kind) -> Option<Kind> {
    match kind {
        Kind::Allreduce => Some(Kind::Reduce),
        Kind::Allgather => Some(Kind::Gather),
        _ => None,
    }
}

/// Refuses kinds of which one is named twice.
pub fn check_once(kinds: &[Kind]) -> Result<(), Failure> {
    match kinds.iter().enumerate().find(|(at, kind)| kinds[..*at].contains(kind)) {
        Some((_, kind)) => Err(Failure::Usage(format!("--kind: expected each kind once, found {kind} twice"))),
        None => Ok(()),
    }
}

/// The kind, and the shards that take part. Options of `collective` and `schedule`.
#[derive(Debug, clap::Args)]
pub struct KindOptions {
    /// Kind of collective
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    pub kind: Kind,

    #[arg(long, value_name = "NAME", value_parser = algorithm, help = algorithms())]
    pub algorithm: Option<Algorithm>,

    /// Shards that contribute, such as 0-3,7 [default: all; for broadcast and scatter, where it is one shard: 0]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    participants: Option<ShardList>,

    /// Shards that receive, such as 0-3,7. They need not contribute. For all kinds except allreduce and allgather; in a scan,
    /// none before the first participant [default: 0 for reduce and gather, all for broadcast and scatter, otherwise the
    /// participants]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    receivers: Option<ShardList>,
}

/// The help of `--algorithm`.
fn algorithms() -> String {
    format!(
        "Algorithm: one of {} [default: the mapper's choice; in a schedule the first that is for the kind]",
        Algorithm::names()
    )
}

/// Who takes part in which kind.
#[derive(Debug, Clone)]
pub struct Parties {
    /// The kind.
    pub kind: Kind,
    /// All shards, those that take no part among them.
    pub shards: u32,
    /// The shards that contribute, at least one.
    pub participants: Ranks,
    /// The shards that receive, at least one.
    pub receivers: Ranks,
}

impl KindOptions {
    /// Who takes part, in a gang of `shards` shards.
    ///
    /// # Errors
    /// Shards that there are not, and receivers or several participants where the kind has none.
    pub fn parties(&self, shards: u32) -> Result<Parties, Failure> {
        let kind = self.kind;
        let ranks = |option: &str, list: &Option<ShardList>, default: Ranks| match list {
            None => Ok(default),
            Some(list) => list.ranks(shards).map_err(|e| Failure::Usage(format!("--{option}: {e}"))),
        };
        let participants = ranks("participants", &self.participants, usual_participants(kind, shards))?;
        if kind.has_root() && participants.len() > 1 {
            let (name, came) = (kind.name(), participants.len());
            return Err(Failure::Usage(format!("--participants: expected one shard for {name}, found {came}")));
        }
        if let (Some(instead), Some(_)) = (with_receivers(kind), &self.receivers) {
            let (name, instead) = (kind.name(), instead.name());
            let message = format!("--receivers is not for {name}: all participants receive; take --kind {instead}");
            return Err(Failure::Usage(message));
        }
        let receivers = ranks("receivers", &self.receivers, usual_receivers(kind, shards, &participants))?;
        let (first, lowest) = (participants.at(0), receivers.at(0));
        if kind == Kind::Scan && lowest < first {
            let message =
                format!("--receivers: expected no shard before {first}, the first participant, found {lowest}");
            return Err(Failure::Usage(message));
        }
        Ok(Parties { kind, shards, participants, receivers })
    }
}

impl Parties {
    /// All shards, or shard 0 where a kind has one that contributes or receives.
    pub fn usual(kind: Kind, shards: u32) -> Self {
        let participants = usual_participants(kind, shards);
        let receivers = usual_receivers(kind, shards, &participants);
        Self { kind, shards, participants, receivers }
    }

    /// What each rank is to end up with. Vectors that are not made of blocks have `blocks` of them.
    pub fn goal(&self, blocks: u32) -> Goal {
        let Self { kind, shards, participants, receivers } = self;
        Goal::new(*kind, *shards, participants.clone(), receivers.clone(), blocks)
    }

    /// Whether contributions are combined by an operator that the user chooses.
    pub fn combines(&self) -> bool {
        self.kind.combines()
    }

    /// The first participant.
    pub fn root(&self) -> u32 {
        self.participants.at(0)
    }

    /// The shards that contribute or receive.
    pub fn taking_part(&self) -> Ranks {
        Ranks::of(self.participants.iter().chain(self.receivers.iter()))
    }

    /// The number of blocks of a contribution.
    pub fn blocks_in(&self) -> u32 {
        if self.kind.has_block_for_each_receiver() { self.receivers.len() } else { 1 }
    }

    /// The blocks of a result.
    pub fn blocks_out(&self) -> u32 {
        if self.kind.has_block_of_each_contributor() { self.participants.len() } else { 1 }
    }

    /// Refuses an algorithm that is not for the goal.
    pub fn check(&self, algorithm: Algorithm) -> Result<(), Failure> {
        let checked = algorithm.check(&self.goal(1), maniple_collectives::Laws::ALL);
        checked.map_err(|(expected, came)| {
            // Its goal is an allreduce of nothing.
            let expected = match self.kind {
                Kind::Barrier => expected.replace("this allreduce", "this barrier"),
                _ => expected,
            };
            Failure::Usage(format!("--algorithm {algorithm}: expected {expected}, found {came}"))
        })
    }

    /// Refuses a goal that no algorithm is for.
    pub fn check_any(&self) -> Result<(), Failure> {
        Algorithm::check_any(&self.goal(1)).map_err(|(expected, came)| {
            Failure::Usage(format!("--kind {}: expected {expected}, found {came}", self.kind.name()))
        })
    }
}

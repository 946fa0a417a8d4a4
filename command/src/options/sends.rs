//! How values that several nodes need are sent.

use crate::output::{Field, field};
use clap::ValueEnum;
use maniple::mapper::{Mapper, MapperSlot, Route, RouteInput};
use maniple::runtime::{Runtime, UnderWay};
use std::sync::Arc;

/// Options of commands whose tasks are a flow over nodes.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Sends {
    /// Way of values that several nodes need [default: as the mapper says]
    #[arg(long, value_name = "WAY", value_enum)]
    pub broadcast: Option<Way>,

    /// How many large values, of at least 64 KiB, a node sends at a time: a number, or `peer` for one to each other node. For
    /// virtual time, and for `--wire mpi` between hosts with `--utility 1`; elsewhere all are sent at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = under_way)]
    pub under_way: UnderWay,
}

/// How values reach several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// Along a binomial tree: who has the values sends them on
    Binomial,
    /// From their node to each other one
    Linear,
}

fn under_way(text: &str) -> Result<UnderWay, String> {
    match text.parse() {
        _ if text == "peer" => Ok(UnderWay::ToEachPeer),
        Ok(number @ 1..) => Ok(UnderWay::InAll(number)),
        _ => Err("expected a number from 1, or `peer`".into()),
    }
}

impl Sends {
    /// Lets the mapper answer with the way that was asked for. A mapper that replaces it later answers as it likes.
    pub fn change(&self, slot: &MapperSlot) {
        if let Some(way) = self.broadcast {
            slot.replace(Arc::new(Routed { inner: slot.current().mapper.clone(), way }));
        }
    }

    /// A runtime with these settings.
    pub fn on(&self, runtime: Runtime) -> Runtime {
        runtime.under_way(self.under_way)
    }

    /// The settings for reports.
    pub fn fields(&self) -> [(&'static str, Field); 2] {
        let way = self.broadcast.and_then(|way| Some(way.to_possible_value()?.get_name().to_owned()));
        let under_way = match self.under_way {
            UnderWay::InAll(number) => number.to_string(),
            UnderWay::ToEachPeer => "peer".into(),
        };
        [field("broadcast", way), field("under_way", under_way)]
    }
}

/// A mapper with one route for all values.
struct Routed {
    inner: Arc<dyn Mapper>,
    way: Way,
}

impl Mapper for Routed {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn base(&self) -> &dyn Mapper {
        &*self.inner
    }
    fn route(&self, _: &RouteInput<'_>) -> Route {
        match self.way {
            Way::Binomial => Route::Binomial,
            Way::Linear => Route::Linear,
        }
    }
}

//! Writes the Trace Event Format
//! (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>), one event a line.
//!
//! Arrows begin and end strictly within slices that have a length, because a viewer binds an arrow to the slice it
//! finds there. The exact time of a message within its slice is not recorded. The latest possible time is written.

use crate::Error;
use crate::diagnose::trace::{Entry, EventKind, Nodes, Recording};
use crate::ids::ProcessorId;
use maniple_mapper::Machine;
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Write};

/// One event of the file. Each phase has optional fields of its own.
#[derive(Default, Serialize)]
struct Line<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'a str,
    ph: &'a str,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// An arrow ends at the slice around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'a str>,
    /// How far an instant event reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    args: Args<'a>,
}

#[derive(Default, Serialize)]
struct Args<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sort_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<ProcessorId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<ProcessorId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Facts about the run as a whole.
#[derive(Serialize)]
struct About<'a> {
    program: &'a str,
    driver: String,
    /// For each processor, how many events were dropped.
    dropped: Vec<u64>,
    /// For each process, the name of its host.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    hosts: &'a [String],
    /// The largest error between times of two hosts, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_error_us: Option<f64>,
    /// Why the recordings of other processes are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The place of an event: row and slice, in nanoseconds since the run began.
#[derive(Clone, Copy)]
struct Spot {
    processor: ProcessorId,
    start: u64,
    end: u64,
}

impl Spot {
    /// The latest moment in it that is not after `by`.
    fn latest(&self, by: u64) -> u64 {
        by.min(self.end.saturating_sub(1)).max(self.start)
    }
}

/// An arrow from one slice to another.
struct Arrow<'a> {
    name: &'a str,
    cat: &'a str,
    from: Spot,
    /// `None` if a message was never handled.
    to: Option<Spot>,
    args: Args<'a>,
}

/// The key of something released, until it runs.
type Released = (EventKind, u32);

struct File<'a, W> {
    out: W,
    machine: &'a Machine,
    lines: u64,
    arrows: u64,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl<W: Write> File<'_, W> {
    fn line(&mut self, processor: ProcessorId, line: Line<'_>) -> io::Result<()> {
        self.out.write_all(if self.lines > 0 { b",\n" } else { b"\n" })?;
        self.lines += 1;
        // Viewers treat 0 specially.
        let (pid, tid) = (self.machine.node_of(processor).0 + 1, processor.0 + 1);
        serde_json::to_writer(&mut self.out, &Line { pid, tid, ..line })?;
        Ok(())
    }

    fn slice(&mut self, at: Spot, name: &str, cat: &str, args: Args<'_>) -> io::Result<()> {
        let (ts, dur) = (us(at.start), Some(us(at.end - at.start)));
        self.line(at.processor, Line { name, cat, ph: "X", ts, dur, args, ..Line::default() })
    }

    fn arrow(&mut self, arrow: Arrow<'_>) -> io::Result<()> {
        let Arrow { name, cat, from, to, args } = arrow;
        self.arrows += 1;
        let id = || Some(format!("{:#x}", self.arrows));
        // Between hosts, whose clocks may differ a little, this may be before the beginning.
        let end = to.map_or(u64::MAX, |to| to.latest(to.start.max(from.start)));
        let begin = Line { name, cat, ph: "s", ts: us(from.latest(end)), id: id(), args, ..Line::default() };
        let end = Line { name, cat, ph: "f", bp: Some("e"), ts: us(end), id: id(), ..Line::default() };
        self.line(from.processor, begin)?;
        to.map_or(Ok(()), |to| self.line(to.processor, end))
    }
}

/// Turns ticks into nanoseconds since the run began.
#[derive(Clone, Copy)]
struct Times {
    first: (u64, u64),
    /// Nanoseconds of a tick.
    tick: f64,
}

impl Times {
    fn new([mut first, mut last]: [(u64, u64); 2], shifts: [i64; 2]) -> Self {
        first.1 = first.1.saturating_add_signed(shifts[0]);
        last.1 = last.1.saturating_add_signed(shifts[1]);
        let (ticks, ns) = (last.0.wrapping_sub(first.0), last.1.saturating_sub(first.1));
        Self { first, tick: if ticks == 0 { 1.0 } else { ns as f64 / ticks as f64 } }
    }

    /// The time of full ticks or of their low bits.
    fn ns(&self, ticks: u64) -> u64 {
        // Signed, because another processor may have begun a little earlier.
        let unused = Entry::TIME.count_zeros();
        let since = (ticks.wrapping_sub(self.first.0) << unused) as i64 >> unused;
        (self.first.1 as f64 + since as f64 * self.tick).max(0.0).round() as u64
    }
}

/// A recording with its times.
struct Row<'a> {
    recording: &'a Recording,
    /// The events from the first slice on. Earlier ones have no time.
    events: &'a [Entry],
    times: Times,
}

impl<'a> Row<'a> {
    fn new(recording: &'a Recording, times: Times) -> Self {
        let first = recording.events.iter().position(|e| e.kind().is_slice()).unwrap_or(recording.events.len());
        Self { recording, events: &recording.events[first..], times }
    }

    /// How many earlier events are missing.
    fn dropped(&self) -> u64 {
        self.recording.dropped + (self.recording.events.len() - self.events.len()) as u64
    }

    fn name(&self, number: u32) -> &'a str {
        self.recording.names.get(number as usize).map_or("?", |name| name)
    }

    fn object(&self, number: u32) -> &'a str {
        self.recording.objects.get(number as usize).map_or("?", |name| name)
    }

    /// Each event with the slice that it is in.
    fn events(&self) -> impl Iterator<Item = (&'a Entry, Spot)> {
        let (processor, end) = (self.recording.processor, self.times.ns(self.recording.moments[1].0));
        let mut slice = Spot { processor, start: 0, end: 0 };
        self.events.iter().enumerate().map(move |(i, event)| {
            if event.kind().is_slice() && event.kind() != EventKind::Idle {
                let start = self.times.ns(event.time());
                let next = self.events[i + 1..].iter().find(|e| e.kind().is_slice());
                let next = next.map_or(end, |e| self.times.ns(e.time()));
                let step = self.recording.step;
                let end = if step > 0 { next.min(start + step) } else { next };
                slice = Spot { processor, start, end: end.max(start) };
            }
            (event, slice)
        })
    }

    fn slices(&self, file: &mut File<'_, impl Write>) -> io::Result<()> {
        for (event, slice) in self.events() {
            let what = event.what();
            let of_shard = Args { shard: event.who(), ..Args::default() };
            let (name, cat, args) = match event.kind() {
                EventKind::Leaf => (self.name(what), "leaf", of_shard),
                EventKind::Dispatch => ("not called here", "runtime", Args::default()),
                EventKind::Poll | EventKind::LastPoll => (self.name(what), "shard", of_shard),
                EventKind::Chains => {
                    let (runs, call) = event.runs();
                    (self.object(what), "collective", Args { runs: Some(runs), call, ..of_shard })
                }
                EventKind::Messages => ("messages", "runtime", Args::default()),
                EventKind::Parked => ("parked", "idle", Args::default()),
                EventKind::Mapper => {
                    self.mapper(event, slice, of_shard, file)?;
                    continue;
                }
                _ => continue,
            };
            file.slice(slice, name, cat, args)?;
        }
        Ok(())
    }

    /// A call of the mapper: a slice, or an instant event if it was not measured.
    fn mapper(&self, event: &Entry, around: Spot, args: Args<'_>, file: &mut File<'_, impl Write>) -> io::Result<()> {
        let (name, cat, ticks) = (self.name(event.what()), "mapper", u64::from(event.key));
        if ticks == 0 {
            let line = Line { name, cat, ph: "i", ts: us(around.start), s: Some("t"), args, ..Line::default() };
            return file.line(around.processor, line);
        }
        // Clamped, because times are rounded.
        let start = self.times.ns(event.time()).clamp(around.start, around.end);
        let end = self.times.ns(event.time() + ticks).clamp(start, around.end);
        file.slice(Spot { start, end, ..around }, name, cat, args)
    }

    /// Writes the waits of shards, from poll to poll.
    fn waits(&self, end: u64, file: &mut File<'_, impl Write>) -> io::Result<()> {
        let mut since: HashMap<u32, (u64, &Entry)> = HashMap::new();
        let processor = self.recording.processor;
        let mut wait = |slot: u32, from: u64, to: u64, poll: &Entry, unfinished: Option<bool>| {
            let (name, cat) = (self.name(poll.what()), "wait");
            let id = || Some(format!("{:#x}", u64::from(processor.0) << 32 | u64::from(slot)));
            let args = Args { shard: poll.who(), unfinished, ..Args::default() };
            file.line(processor, Line { name, cat, ph: "b", ts: us(from), id: id(), args, ..Line::default() })?;
            file.line(processor, Line { name, cat, ph: "e", ts: us(to), id: id(), ..Line::default() })
        };
        for (event, slice) in self.events() {
            if !matches!(event.kind(), EventKind::Poll | EventKind::LastPoll) {
                continue;
            }
            if let Some((from, poll)) = since.remove(&event.key) {
                wait(event.key, from, slice.start, poll, None)?;
            }
            if event.kind() == EventKind::Poll {
                since.insert(event.key, (slice.end, event));
            }
        }
        let mut left: Vec<_> = since.into_iter().collect();
        left.sort_unstable_by_key(|(slot, _)| *slot);
        left.into_iter().try_for_each(|(slot, (from, poll))| wait(slot, from, end.max(from), poll, Some(true)))
    }
}

/// Messages, each with its name, by sender, receiver and number.
type Messages<'a> = HashMap<(ProcessorId, ProcessorId, u32), (Spot, &'a str)>;

fn messages<'a>(rows: &[Row<'a>], kind: EventKind) -> Messages<'a> {
    let mut found = HashMap::new();
    for row in rows {
        let me = row.recording.processor;
        for (event, slice) in row.events().filter(|(e, _)| e.kind() == kind) {
            let other = event.processor().unwrap_or(ProcessorId(u32::MAX));
            let (from, to) = if kind == EventKind::Send { (me, other) } else { (other, me) };
            found.insert((from, to, event.key), (slice, row.name(event.what())));
        }
    }
    found
}

/// Writes arrows from an arrival to what it released, which runs later.
fn releases(row: &Row<'_>, sent: &Messages<'_>, file: &mut File<'_, impl Write>) -> io::Result<()> {
    let me = row.recording.processor;
    let mut pending: HashMap<Released, Vec<(Spot, &Entry)>> = HashMap::new();
    // Where the last message came from.
    let mut sender = None;
    for (event, slice) in row.events() {
        let kind = event.kind();
        if kind.is_slice() {
            sender = None;
        }
        let runs = match kind {
            EventKind::Leaf | EventKind::Dispatch => (EventKind::ReleasedTask, event.key),
            EventKind::Poll | EventKind::LastPoll => (EventKind::ReleasedShard, event.key),
            EventKind::Chains => (EventKind::ReleasedChain, event.what()),
            EventKind::Receive => {
                sender = event.processor().and_then(|from| sent.get(&(from, me, event.key))).map(|(spot, _)| *spot);
                continue;
            }
            EventKind::ReleasedTask | EventKind::ReleasedShard | EventKind::ReleasedChain => {
                let who = if kind == EventKind::ReleasedChain { event.what() } else { event.key };
                pending.entry((kind, who)).or_default().push((sender.unwrap_or(slice), event));
                continue;
            }
            _ => continue,
        };
        for (from, arrival) in pending.remove(&runs).into_iter().flatten() {
            let args = Args { generation: arrival.who(), ..Args::default() };
            file.arrow(Arrow { name: row.object(arrival.what()), cat: "arrival", from, to: Some(slice), args })?;
        }
    }
    Ok(())
}

/// The run that a trace describes.
pub(super) struct RunInfo<'a> {
    pub machine: &'a Machine,
    pub driver: &'a str,
    /// If there are several processes.
    pub nodes: Option<Nodes>,
    pub error: Option<&'a Error>,
}

/// Each recording with its times. The counter is the same for all processors of a host, so one measurement is enough.
fn rows<'a>(recordings: &'a [Recording], machine: &Machine, nodes: Option<&Nodes>) -> Vec<Row<'a>> {
    let mut of_hosts = HashMap::new();
    let row = |recording: &'a Recording| {
        let node = machine.node_of(recording.processor).0 as usize;
        let host = nodes.and_then(|nodes| nodes.first_of.get(node)).copied().unwrap_or(0);
        let shifts = nodes.and_then(|nodes| nodes.shifts.get(node)).copied().unwrap_or_default();
        let times = of_hosts.entry(host).or_insert_with(|| Times::new(recording.moments, shifts));
        Row::new(recording, *times)
    };
    recordings.iter().map(row).collect()
}

/// Writes the whole file.
pub(super) fn write(out: &mut impl Write, recordings: &[Recording], run: RunInfo<'_>) -> io::Result<()> {
    let RunInfo { machine, driver, nodes, error } = run;
    let rows = rows(recordings, machine, nodes.as_ref());
    let end = rows.iter().map(|row| row.times.ns(row.recording.moments[1].0)).max().unwrap_or(0);
    let text = error.map(ToString::to_string);

    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
    let about = About {
        program: "maniple",
        driver: driver.into(),
        dropped: rows.iter().map(Row::dropped).collect(),
        hosts: nodes.as_ref().map_or(&[], |nodes| &nodes.hosts),
        clock_error_us: nodes.as_ref().and_then(|nodes| nodes.clock_error).map(us),
        missing: nodes.as_ref().and_then(|nodes| nodes.missing.as_deref()),
        error: text.as_deref(),
    };
    serde_json::to_writer(&mut *out, &about)?;
    out.write_all(b",\"traceEvents\":[")?;
    let mut file = File { out: &mut *out, machine, lines: 0, arrows: 0 };
    for row in &rows {
        let processor = row.recording.processor;
        let node = machine.node_of(processor);
        let host = nodes.as_ref().and_then(|nodes| nodes.hosts.get(node.0 as usize));
        let process = host.map_or_else(|| format!("node {node}"), |host| format!("node {node} on {host}"));
        let names = [("process_name", process), ("thread_name", format!("processor {processor}"))];
        for (name, of) in names {
            let args = Args { name: Some(of), ..Args::default() };
            file.line(processor, Line { name, ph: "M", args, ..Line::default() })?;
        }
        let args = Args { sort_index: Some(processor.0), ..Args::default() };
        file.line(processor, Line { name: "thread_sort_index", ph: "M", args, ..Line::default() })?;
        if row.dropped() > 0 {
            let ts = us(row.events.first().map_or(0, |e| row.times.ns(e.time())));
            let args = Args { dropped: Some(row.dropped()), ..Args::default() };
            let line = Line { name: "events dropped", cat: "run", ph: "i", ts, s: Some("t"), args, ..Line::default() };
            file.line(processor, line)?;
        }
        row.slices(&mut file)?;
        row.waits(end, &mut file)?;
    }
    let (sent, received) = (messages(&rows, EventKind::Send), messages(&rows, EventKind::Receive));
    for row in &rows {
        let me = row.recording.processor;
        for (event, slice) in row.events().filter(|(e, _)| e.kind() == EventKind::Send) {
            let (name, to) = (row.name(event.what()), event.processor());
            let came = to.and_then(|to| received.get(&(me, to, event.key)));
            debug_assert!(came.is_none_or(|(_, as_name)| *as_name == name), "a message from {me} to {to:?}");
            let args = Args { from: Some(me), to, ..Args::default() };
            file.arrow(Arrow { name, cat: "message", from: slice, to: came.map(|(spot, _)| *spot), args })?;
        }
    }
    rows.iter().try_for_each(|row| releases(row, &sent, &mut file))?;
    if let Some(error) = text.as_deref() {
        let args = Args { error: Some(error), ..Args::default() };
        let line = Line { name: "run failed", cat: "run", ph: "i", ts: us(end), s: Some("g"), args, ..Line::default() };
        file.line(ProcessorId(0), line)?;
    }
    out.write_all(b"\n]}\n")
}

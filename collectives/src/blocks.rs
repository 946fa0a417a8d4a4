//! The blocks of a call in parts: each is a vector of its own, which steps move and nothing changes.

use crate::layout::Layout;
use crate::reduction::Reduction;
use crate::registers::Pool;
use crate::spares::Spares;
use crate::value::{Came, Given};
use bytemuck::Zeroable;
use maniple_regions::Vector;
use maniple_runtime::replay::ReplayCx;
use maniple_runtime::{Error, Lent, Payload, vector_in};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A block that has come, or the error in its place.
pub type Block<T> = Result<Vector<T>, Box<Error>>;

/// A block of the result that has come.
pub struct Shown<T> {
    /// Its position in the result.
    pub part: u32,
    /// Whether it is a copy of a small value. Then its future may be kept for a later call. A future with a block on loan would
    /// keep the memory of others, too.
    pub is_copy: bool,
    pub came: Block<T>,
}

/// The blocks of one call. A later one of the shard uses the same memory.
pub struct Blocks<By: Reduction> {
    layout: Rc<Layout>,
    /// Blocks that some step uses, by register, and there by position. A register's list is empty until one is put into it.
    registers: Vec<Vec<Option<Block<By::Element>>>>,
    /// Whether there are some.
    puts: bool,
    /// The contribution, as long as some of it is to come.
    given: Given<By::In>,
    /// The contribution, if it came as one vector.
    whole: Option<Block<By::Element>>,
    /// The shard's position, and the memory of contributions.
    contributions: (u32, Rc<Spares<By::In>>),
    /// The block of the contribution that a step waits for.
    lacking: u32,
    /// The reads that have been done, and the moves that were done when the call began.
    taken: Vec<bool>,
    moved: Vec<bool>,
    /// How many steps are still to change each block of the result, if more than one change some.
    changes: Vec<u16>,
    /// Blocks of the result that have come and are not shown yet.
    came: Vec<Shown<By::Element>>,
    /// Whether the result is put together, so that all its blocks are kept.
    joins: bool,
    /// The vectors of small values that were copied, by read. A later call uses those that nobody else holds any more.
    copies: Vec<Option<Arc<Vec<By::Element>>>>,
    /// The whole result, if it is asked for.
    joined: Option<Vector<By::Element>>,
    /// The memory of blocks that were put together.
    gathered: Pool<By::Element>,
}

impl<By: Reduction> Blocks<By> {
    pub fn new(layout: &Rc<Layout>, (position, contributions): (u32, &Rc<Spares<By::In>>)) -> Self {
        Self {
            registers: layout.registers().map(|_| Vec::new()).collect(),
            puts: false,
            given: Given::Nothing,
            whole: None,
            contributions: (position, contributions.clone()),
            lacking: 0,
            taken: vec![false; layout.reads()],
            moved: vec![false; layout.free_locals().len()],
            changes: Vec::new(),
            came: Vec::new(),
            joins: false,
            copies: vec![None; layout.reads()],
            joined: None,
            gathered: Pool::new(),
            layout: layout.clone(),
        }
    }

    /// Begins a call. `joins` says whether its result is to be whole.
    pub fn begin(&mut self, given: Given<By::In>, joins: bool) {
        (self.given, self.joins) = (given, joins);
        self.changes.clear();
        self.changes.extend(self.layout.changes());
        // A whole contribution comes with its first block.
        let all = self.layout.contribution.clone();
        let first = if matches!(self.given, Given::Blocks(_)) { all.end } else { all.end.min(all.start + 1) };
        (all.start..first).for_each(|block| self.fetch(block));
        let layout = self.layout.clone();
        for (at, &(from, part)) in layout.free_locals().iter().enumerate() {
            self.moved[at] = !self.lacks(Some(from));
            if self.moved[at] {
                self.copy(from, part);
            }
        }
    }

    /// Ends a call.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.puts) {
            self.registers.iter_mut().for_each(|blocks| blocks.fill(None));
        }
        self.taken.fill(false);
        self.came.clear();
        // Mostly few come at a time.
        self.came.shrink_to(8);
        (self.given, self.whole, self.joined) = (Given::Nothing, None, None);
    }

    /// Shows a block of the contribution that has come, if it has its place in the result there.
    fn show_given(&mut self, block: u32) {
        if let Some(result) = self.layout.in_result(0, block).filter(|&result| self.layout.is_given(result)) {
            let came = self.block(0, block);
            self.came.push(Shown { part: result, is_copy: false, came });
        }
    }

    /// Puts a block of the contribution into its place if it is there.
    fn fetch(&mut self, block: u32) {
        if self.has(0, block) {
            return;
        }
        let position = block - self.layout.contribution.start;
        if let Given::Blocks(blocks) = &mut self.given {
            if let Some(came) = blocks.take(position as usize) {
                let checked = came.map_err(Box::new).and_then(|vector| {
                    self.contributions.1.keep(self.contributions.0, &vector);
                    self.layout.check_block(position, vector.len())?;
                    Ok(lifted::<By>(vector))
                });
                self.put(0, block, checked);
                self.show_given(block);
            }
            return;
        }
        let Some(came) = self.given.take(|_| Ok(())) else { return };
        self.given = Given::Nothing;
        let whole = came.map(|came| match came {
            Came::Nothing => Vector::default(),
            Came::One(element) => vec![element].into(),
            Came::Many(vector) => vector,
            Came::Blocks(_) => unreachable!("blocks are fetched one by one"),
        });
        let all = self.layout.contribution.clone();
        let expected = self.layout.elements(0, &all);
        let checked = whole.map_err(Box::new).and_then(|whole| {
            self.contributions.1.keep(self.contributions.0, &whole);
            self.layout.check_length(|of| format!("the input of {of}"), expected, whole.len())?;
            Ok(lifted::<By>(whole))
        });
        self.whole = Some(checked);
        if self.layout.result().0 == 0 {
            all.for_each(|block| self.show_given(block));
        }
    }

    /// Whether blocks of a part, or else of the contribution, are still to come. They are of the contribution.
    pub fn lacks(&mut self, part: Option<u16>) -> bool {
        if self.whole.is_some() {
            return false;
        }
        let (register, blocks) =
            part.map_or_else(|| (0, self.layout.contribution.clone()), |part| self.layout.at(part));
        if register != 0 {
            return false;
        }
        let own = self.layout.contribution.clone();
        for block in blocks.start.max(own.start)..blocks.end.min(own.end) {
            if !self.has(register, block) {
                self.fetch(block);
                if !self.has(register, block) {
                    self.lacking = block;
                    return true;
                }
            }
        }
        false
    }

    /// Has the chain started when the block comes that it lacks. Returns false if it is there.
    pub fn waits(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match &self.given {
            Given::Blocks(blocks) => {
                blocks.start_chain((self.lacking - self.layout.contribution.start) as usize, chain, cx)
            }
            whole => whole.start_chain(chain, cx),
        }
    }

    fn has(&self, register: u8, block: u32) -> bool {
        self.get(register, block).is_some() || self.of_whole(register, block).is_some()
    }

    fn get(&self, register: u8, block: u32) -> Option<&Block<By::Element>> {
        self.registers[usize::from(register)].get(self.layout.position(register, block))?.as_ref()
    }

    /// The whole contribution, if it came as one vector and the block is one of it that no read has replaced.
    #[inline]
    fn of_whole(&self, register: u8, block: u32) -> Option<&Block<By::Element>> {
        let is_own = register == 0 && self.layout.contribution.contains(&block);
        self.whole.as_ref().filter(|_| is_own && !(self.puts && self.get(register, block).is_some()))
    }

    /// A block that has come.
    fn block(&self, register: u8, block: u32) -> Block<By::Element> {
        let missing = || Err(Box::new(Error::Stopped { what: self.layout.name.clone() }));
        match self.of_whole(register, block) {
            Some(Ok(whole)) => Ok(whole.slice(self.layout.place(0, &self.layout.contribution, block, whole.len()))),
            Some(Err(error)) => Err(error.clone()),
            None => self.get(register, block).cloned().unwrap_or_else(missing),
        }
    }

    fn put(&mut self, register: u8, block: u32, came: Block<By::Element>) {
        let at = self.layout.position(register, block);
        let blocks = &mut self.registers[usize::from(register)];
        if blocks.is_empty() {
            blocks.resize(self.layout.used(register), None);
        }
        blocks[at] = Some(came);
        self.puts = true;
    }

    /// Puts a block into its place in a step.
    fn change(&mut self, register: u8, block: u32, (came, is_copy): (Block<By::Element>, bool)) {
        let shown = self.layout.in_result(register, block).filter(|&result| {
            // Mostly one step changes a block.
            self.changes.get_mut(result as usize).is_none_or(|left| {
                *left -= 1;
                *left == 0
            })
        });
        let Some(result) = shown.filter(|_| !self.joins) else {
            if self.joins || self.layout.is_used(register, block) {
                self.put(register, block, came);
            }
            return;
        };
        if self.layout.is_used(register, block) {
            self.put(register, block, came.clone());
        }
        self.came.push(Shown { part: result, is_copy, came });
    }

    /// What an update stores.
    pub fn payload(&mut self, part: u16) -> Payload {
        let (register, blocks) = self.layout.at(part);
        if blocks.len() == 1
            && let Some(Ok(whole)) = self.of_whole(register, blocks.start)
        {
            let own = &whole[self.layout.place(0, &self.layout.contribution, blocks.start, whole.len())];
            if size_of_val(own) <= Payload::INLINE {
                return Payload::copy_of(bytemuck::cast_slice(own));
            }
        }
        match self.gathered(register, blocks) {
            Ok(vector) if size_of_val(&vector[..]) <= Payload::INLINE => {
                Payload::copy_of(bytemuck::cast_slice(&vector))
            }
            Ok(vector) => Payload::lend(vector),
            Err(error) => Payload::Failed(error),
        }
    }

    /// Some blocks of a register as one vector. A single one is not copied.
    fn gathered(&mut self, register: u8, blocks: Range<u32>) -> Block<By::Element> {
        if blocks.len() == 1 {
            return self.block(register, blocks.start);
        }
        let all: Vec<Vector<_>> = blocks.map(|block| self.block(register, block)).collect::<Result<_, _>>()?;
        Ok(self.gathered.concat(&all))
    }

    #[inline]
    pub fn is_free(&self, read: u16) -> bool {
        self.layout.read(read).1
    }

    #[inline]
    pub fn is_taken(&self, read: u16) -> bool {
        self.taken[usize::from(read)]
    }

    /// Takes what a read has found. A small value is copied.
    pub fn take(&mut self, read: u16, came: Payload) {
        self.taken[usize::from(read)] = true;
        let part = self.layout.read(read).0;
        let (register, blocks) = self.layout.at(part);
        let expected = self.layout.elements(register, &blocks);
        let (vector, is_copy) = match came {
            Payload::Failed(error) => (Err(error), false),
            Payload::Lent(lent) => (self.held(read, expected, &lent), false),
            small => {
                let copied = self.copied(read, expected, small.bytes());
                let is_copy = copied.is_ok();
                (copied, is_copy)
            }
        };
        if blocks.len() == 1 {
            return self.change(register, blocks.start, (vector, is_copy));
        }
        for block in blocks.clone() {
            let one = vector.as_ref().map(|all| all.slice(self.layout.place(register, &blocks, block, all.len())));
            self.change(register, block, (one.map_err(Clone::clone), is_copy));
        }
    }

    /// The elements of a value on loan.
    fn held(&mut self, read: u16, expected: Option<usize>, lent: &Arc<dyn Lent>) -> Block<By::Element> {
        match vector_in::<By::Element>(lent.clone()) {
            Some(vector) => self.check_came(read, expected, vector.len()).map(|()| vector),
            None => self.copied(read, expected, lent.as_bytes()),
        }
    }

    /// The elements in these bytes. Elements without bytes are as many as expected.
    #[inline]
    fn copied(&mut self, read: u16, expected: Option<usize>, bytes: &[u8]) -> Block<By::Element> {
        let size = size_of::<By::Element>();
        let count = match size {
            0 => expected.unwrap_or(0),
            _ => bytes.len() / size,
        };
        self.check_came(read, expected, count)?;
        let last = &mut self.copies[usize::from(read)];
        let vector = match last.as_mut().and_then(Arc::get_mut) {
            Some(vector) => vector,
            None => Arc::get_mut(last.insert(Arc::default())).expect("nobody else holds it"),
        };
        if vector.len() != count {
            vector.clear();
            vector.reserve_exact(count);
            vector.resize(count, By::Element::zeroed());
        }
        bytemuck::cast_slice_mut::<_, u8>(vector).copy_from_slice(&bytes[..count * size]);
        Ok(last.clone().map_or_else(Vector::default, Vector::from))
    }

    /// Refuses another number of elements than expected.
    #[inline]
    fn check_came(&self, read: u16, expected: Option<usize>, came: usize) -> Result<(), Box<Error>> {
        let what = |of: &str| format!("{of}: the value of shard {}", self.layout.peers[usize::from(read)]);
        self.layout.check_length(what, expected, came)
    }

    /// Moves blocks, unless that was done when the call began.
    pub fn copy_in_turn(&mut self, from: u16, part: u16) {
        let free = self.layout.free_locals().iter().position(|moved| *moved == (from, part));
        if !free.is_some_and(|at| self.moved[at]) {
            self.copy(from, part);
        }
    }

    fn copy(&mut self, from: u16, part: u16) {
        let ((source, from), (register, to)) = (self.layout.at(from), self.layout.at(part));
        for (from, to) in from.zip(to) {
            let block = self.block(source, from);
            self.change(register, to, (block, false));
        }
    }

    /// The next block of the result that has come and is not shown yet.
    #[inline]
    pub fn show_next(&mut self) -> Option<Shown<By::Element>> {
        self.came.pop()
    }

    /// The shard that contributes a block of the result, and the number of its block.
    pub fn origin(&self, part: usize) -> (u32, u32) {
        self.layout.origin(part)
    }

    /// Whether the result is to be whole.
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// Joins the blocks of the result.
    pub fn join(&mut self) -> Result<(), Box<Error>> {
        let (register, result) = self.layout.result();
        self.joined = Some(self.gathered(register, result)?);
        Ok(())
    }

    /// The whole result, once it is joined.
    pub fn joined(&self) -> &[By::Element] {
        self.joined.as_deref().unwrap_or_default()
    }

    /// The same as a vector.
    pub fn take_joined(&mut self) -> Vector<By::Element> {
        self.joined.take().unwrap_or_default()
    }

    /// The first error of the contribution.
    pub fn failed(&self) -> Option<Error> {
        let mut blocks = self.layout.contribution.clone().filter_map(|block| self.get(0, block));
        let whole = self.whole.as_ref().and_then(|whole| whole.as_ref().err());
        whole.or(blocks.find_map(|block| block.as_ref().err())).map(|error| (**error).clone())
    }
}

/// Nothing is combined, so elements are what they are.
fn lifted<By: Reduction>(vector: Vector<By::In>) -> Vector<By::Element> {
    By::unlifted(vector).unwrap_or_default()
}

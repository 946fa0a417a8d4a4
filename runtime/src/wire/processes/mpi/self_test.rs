//! What a library is tested for before it is used.

use super::communicator::{Communicator, Operation};
use super::functions::{Failed, Mpi, call};
use std::ffi::c_int;
use std::time::{Duration, Instant};

impl Mpi {
    /// Whether the library does what its family promises, as far as this process sees it: sizes, and a message to itself.
    /// Returns the first thing that is wrong. Local, unless the library has put several processes together wrongly.
    pub fn test_itself(&self, all: &Communicator) -> Result<(), String> {
        static SENT: [u8; 9] = *b"to itself";
        let expect = |what: &str, right: bool, came: String| match right {
            true => Ok(()),
            false => Err(format!("{what}: {came}")),
        };
        all.return_errors();
        for (name, datatype, expected) in [("MPI_BYTE", self.abi.byte, 1), ("MPI_DOUBLE", self.abi.double, 8)] {
            let mut size = -1;
            // SAFETY: The library's family has a datatype of this name.
            unsafe { call!(self, type_size(datatype.into(), &mut size)) };
            expect("the size of its datatypes", size == expected, format!("{name} has {size} bytes, not {expected}"))?;
        }
        let (rank, size) = (all.rank(), all.size());
        expect("ranks", rank < size, format!("this process is rank {rank} of {size}"))?;
        let failed = |code: c_int| format!("a message to itself: error {code}");
        // SAFETY: Nobody changes the bytes, which are there for ever.
        let request = unsafe { all.start_send(&SENT, rank, 1) }.map_err(|Failed(code)| failed(code))?;
        let deadline = Instant::now() + Duration::from_secs(10);
        let came = loop {
            match all.take(1).map_err(|(_, Failed(code))| failed(code))? {
                Some(came) => break came,
                None => expect("a message to itself", Instant::now() < deadline, "none in 10 s".into())?,
            }
        };
        self.wait(request);
        let right = came.from == rank && came.bytes == SENT;
        expect("a message to itself", right, format!("{} bytes from rank {}", came.bytes.len(), came.from))
    }

    /// Whether operators and divisions of communicators do what they should; collective. Returns the first thing that is wrong,
    /// which is the same in all processes unless only some of them see it.
    pub fn test_together(&self, all: &Communicator) -> Result<(), String> {
        let (rank, n) = (all.rank(), f64::from(all.size()));
        // So that no product is too large for a number.
        let factor = [2.0, 3.0].get(rank as usize).copied().unwrap_or(1.0);
        let own = f64::from(rank) + 1.0;
        let mut wrong = Vec::new();
        for (operation, own, right) in [
            (Operation::Sum, own, n * (n + 1.0) / 2.0),
            (Operation::Product, factor, if n < 2.0 { 2.0 } else { 6.0 }),
            (Operation::Min, own, 1.0),
            (Operation::Max, own, n),
        ] {
            let mut result = [f64::NAN];
            all.all_reduce(&[own], &mut result, operation);
            if result != [right] {
                wrong.push(format!("an allreduce: {operation:?} is {}, not {right}", result[0]));
            }
        }
        let (even, host) = (all.of_those(rank % 2 == 0), all.sharing_memory());
        let sizes = (even.as_ref().map_or(0, Communicator::size), host.size());
        let expected = if rank % 2 == 0 { all.size().div_ceil(2) } else { 0 };
        if sizes.0 != expected || sizes.1 == 0 || sizes.1 > all.size() {
            wrong
                .push(format!("divided communicators: {} and {} processes, not {expected} and some", sizes.0, sizes.1));
        }
        even.into_iter().chain([host]).for_each(Communicator::free);
        wrong.into_iter().next().map_or(Ok(()), Err)
    }
}

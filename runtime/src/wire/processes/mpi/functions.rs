//! The functions of MPI that are called here, in a library that was loaded.

use super::abi::{Abi, Handle, Status};
use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;

/// A loaded library: its functions and constants.
pub struct Mpi {
    /// The name and version that the library says.
    pub version: String,
    /// Where it is.
    pub path: String,
    pub abi: Abi,
    pub functions: Either,
    /// It stays loaded: threads of its own may run.
    _library: ManuallyDrop<libloading::os::unix::Library>,
}

/// The functions with handles of either width.
pub enum Either {
    Numbers(Functions<c_int>),
    Pointers(Functions<*mut c_void>),
}

pub type In = *const c_void;
pub type Out = *mut c_void;

/// Defines the table of functions. The function `MPI_Comm_rank` is called `comm_rank`, and so on.
macro_rules! functions {
    ($($name:ident($($parameter:ty),*);)*) => {
        pub struct Functions<H> {
            $(pub $name: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl<H> Functions<H> {
            /// The functions of a library, or the name of one that it does not have.
            fn of(library: &libloading::os::unix::Library) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let (first, rest) = stringify!($name).split_at(1);
                        let name = format!("MPI_{}{rest}", first.to_uppercase());
                        // SAFETY: The standard gives the functions of these names these parameters.
                        *unsafe { library.get(name.as_bytes()) }.map_err(|_| name)?
                    },)*
                })
            }
        }
    };
}

// H stands for a handle: a communicator, a datatype, an operator, a request, or a message.
functions! {
    init_thread(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized(*mut c_int);
    finalize();
    type_size(H, *mut c_int);
    comm_rank(H, *mut c_int);
    comm_size(H, *mut c_int);
    comm_dup(H, *mut H);
    comm_split(H, c_int, c_int, *mut H);
    comm_split_type(H, c_int, c_int, H, *mut H);
    comm_free(*mut H);
    comm_set_errhandler(H, H);
    isend(In, c_int, H, c_int, c_int, H, *mut H);
    irecv(Out, c_int, H, c_int, c_int, H, *mut H);
    send(In, c_int, H, c_int, c_int, H);
    recv(Out, c_int, H, c_int, c_int, H, *mut Status);
    test(*mut H, *mut c_int, *mut Status);
    wait(*mut H, *mut Status);
    improbe(c_int, c_int, H, *mut c_int, *mut H, *mut Status);
    get_count(*mut Status, H, *mut c_int);
    mrecv(Out, c_int, H, *mut H, *mut Status);
    barrier(H);
    bcast(Out, c_int, H, c_int, H);
    gather(In, c_int, H, Out, c_int, H, c_int, H);
    igatherv(In, c_int, H, Out, *const c_int, *const c_int, H, c_int, H, *mut H);
    allgather(In, c_int, H, Out, c_int, H, H);
    iallgatherv(In, c_int, H, Out, *const c_int, *const c_int, H, H, *mut H);
    scatter(In, c_int, H, Out, c_int, H, c_int, H);
    alltoall(In, c_int, H, Out, c_int, H, H);
    reduce(In, Out, c_int, H, H, c_int, H);
    allreduce(In, Out, c_int, H, H, H);
    reduce_scatter_block(In, Out, c_int, H, H, H);
    scan(In, Out, c_int, H, H, H);
    exscan(In, Out, c_int, H, H, H);
}

/// Calls a function of a library. Handles take the library's width by `into()`, places of handles by `place()`.
macro_rules! call {
    ($mpi:expr, $name:ident($($argument:expr),*)) => {
        match &$mpi.functions {
            super::functions::Either::Numbers(functions) => (functions.$name)($($argument),*),
            super::functions::Either::Pointers(functions) => (functions.$name)($($argument),*),
        }
    };
}

pub(super) use call;

/// The same, where MPI gives an error to its handler: with another code than success nothing can be relied on.
macro_rules! must {
    ($mpi:expr, $name:ident($($argument:expr),*)) => {{
        let code = call!($mpi, $name($($argument),*));
        assert!(code == 0, "{} of {} gave error {code}", stringify!($name), $mpi.version);
    }};
}

pub(super) use must;

/// An operation that has been started: a send or a receive.
pub struct Request(pub Handle);

/// The code of an error of MPI.
#[derive(Debug)]
pub struct Failed(pub c_int);

pub fn ok(code: c_int) -> Result<(), Failed> {
    if code == 0 { Ok(()) } else { Err(Failed(code)) }
}

impl Mpi {
    /// The functions and constants of this library, or the name of what it lacks.
    pub fn new(
        library: libloading::os::unix::Library,
        abi: Abi,
        version: String,
        path: String,
    ) -> Result<Self, String> {
        let functions = match abi.pointers {
            true => Either::Pointers(Functions::of(&library)?),
            false => Either::Numbers(Functions::of(&library)?),
        };
        Ok(Self { version, path, abi, functions, _library: ManuallyDrop::new(library) })
    }

    /// Initialises MPI, for this thread alone or for one thread at a time.
    ///
    /// # Errors
    ///
    /// MPI was initialised before, or can't do this.
    pub fn initialise(&self, any_thread: bool) -> Result<(), String> {
        let (mut before, mut given) = (0, 0);
        let wanted = if any_thread { self.abi.serialized } else { self.abi.single };
        // SAFETY: MPI reads no arguments of the program that it is not given. A process can do this once.
        let code = unsafe {
            call!(self, initialized(&mut before));
            if before != 0 {
                return Err("initialised by the program before; remove that call".into());
            }
            call!(self, init_thread(std::ptr::null_mut(), std::ptr::null_mut(), wanted, &mut given))
        };
        match code {
            0 if given >= wanted => Ok(()),
            0 => Err(format!("{} can be used by one thread only", self.version)),
            _ => Err(format!("{} can't be initialised (error {code})", self.version)),
        }
    }

    /// Finalises MPI. Nobody may call it any more.
    pub fn finalise(&self) {
        // SAFETY: The caller has the right to call MPI.
        unsafe { call!(self, finalize()) };
    }

    /// Whether an operation has ended. It must not be asked again.
    pub fn has_ended(&self, Request(request): &mut Request) -> Result<bool, Failed> {
        let (mut over, mut status) = (0, Status::default());
        // SAFETY: The request has been started and has not ended.
        ok(unsafe { call!(self, test(request.place(), &mut over, &mut status)) })?;
        Ok(over != 0)
    }

    /// Waits for the end of an operation.
    pub fn wait(&self, Request(mut request): Request) {
        let mut status = Status::default();
        // SAFETY: The request has been started and has not ended.
        unsafe { must!(self, wait(request.place(), &mut status)) };
    }
}

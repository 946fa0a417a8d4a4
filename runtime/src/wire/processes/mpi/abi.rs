//! What differs between MPI libraries: the width of handles, the values of constants, and the layout of a status. Their
//! functions have the same names and parameters.
//!
//! There are three families. Since MPI 5 the standard says how binaries look (MPI 5.0, chapter 20, "Application Binary
//! Interface"). Open MPI's handles are addresses of its own objects. Those of MPICH are numbers; Intel MPI, Cray MPICH,
//! MVAPICH and others have promised to use the same ones.

use std::ffi::{c_int, c_void};

/// A handle of an MPI object, as wide as the library's are.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Handle {
    number: c_int,
    pointer: *mut c_void,
}

// SAFETY: A name for an object of the library, whose functions say from which thread they may be called.
unsafe impl Send for Handle {}
// SAFETY: As for `Send`.
unsafe impl Sync for Handle {}

impl Handle {
    /// For a place into which a function writes a handle.
    pub const NONE: Self = Self::pointer(0);

    const fn number(number: c_int) -> Self {
        // The other half is never read.
        let mut handle = Self::pointer(0);
        handle.number = number;
        handle
    }

    const fn pointer(address: usize) -> Self {
        Self { pointer: std::ptr::without_provenance_mut(address) }
    }

    /// Where a function writes or changes this handle.
    pub const fn place<H>(&mut self) -> *mut H {
        std::ptr::from_mut(self).cast()
    }
}

impl From<*mut c_void> for Handle {
    fn from(pointer: *mut c_void) -> Self {
        Self { pointer }
    }
}

impl From<Handle> for c_int {
    fn from(handle: Handle) -> Self {
        // SAFETY: Any bits are a number.
        unsafe { handle.number }
    }
}

impl From<Handle> for *mut c_void {
    fn from(handle: Handle) -> Self {
        // SAFETY: Any bits are a pointer that nobody follows here.
        unsafe { handle.pointer }
    }
}

/// Room for a status of any library, in words of C's type `int`.
#[repr(C, align(8))]
#[derive(Default)]
pub struct Status(pub [c_int; 16]);

/// The constants of a family.
pub struct Abi {
    /// Whether handles are pointers, not numbers.
    pub pointers: bool,
    pub world: Handle,
    pub no_info: Handle,
    pub errors_return: Handle,
    pub byte: Handle,
    pub double: Handle,
    pub sum: Handle,
    pub product: Handle,
    pub min: Handle,
    pub max: Handle,
    pub any_source: c_int,
    /// The colour of a process that gets no part of a divided communicator.
    pub undefined: c_int,
    /// What processes that share memory have in common.
    pub shared: c_int,
    pub single: c_int,
    pub serialized: c_int,
    /// Where a status has the sender's rank, in words.
    pub source: usize,
}

impl Abi {
    /// That of the standard.
    pub const STANDARD: Self = Self {
        pointers: true,
        world: Handle::pointer(0x101),
        no_info: Handle::pointer(0x130),
        errors_return: Handle::pointer(0x143),
        byte: Handle::pointer(0x247),
        double: Handle::pointer(0x214),
        sum: Handle::pointer(0x21),
        product: Handle::pointer(0x24),
        min: Handle::pointer(0x22),
        max: Handle::pointer(0x23),
        any_source: -1,
        undefined: -32766,
        shared: 221,
        single: 0,
        serialized: 2048,
        source: 0,
    };

    /// That of MPICH.
    pub const MPICH: Self = Self {
        pointers: false,
        world: Handle::number(0x4400_0000),
        no_info: Handle::number(0x1c00_0000),
        errors_return: Handle::number(0x5400_0001),
        byte: Handle::number(0x4c00_010d),
        double: Handle::number(0x4c00_080b),
        sum: Handle::number(0x5800_0003),
        product: Handle::number(0x5800_0004),
        min: Handle::number(0x5800_0002),
        max: Handle::number(0x5800_0001),
        any_source: -2,
        undefined: -32766,
        shared: 1,
        single: 0,
        serialized: 2,
        source: 2,
    };

    /// That of Open MPI, which has these objects.
    pub fn open_mpi<E>(object: impl Fn(&str) -> Result<*mut c_void, E>) -> Result<Self, E> {
        let handle = |name: &str| object(name).map(Handle::from);
        Ok(Self {
            pointers: true,
            world: handle("ompi_mpi_comm_world")?,
            no_info: handle("ompi_mpi_info_null")?,
            errors_return: handle("ompi_mpi_errors_return")?,
            byte: handle("ompi_mpi_byte")?,
            double: handle("ompi_mpi_double")?,
            sum: handle("ompi_mpi_op_sum")?,
            product: handle("ompi_mpi_op_prod")?,
            min: handle("ompi_mpi_op_min")?,
            max: handle("ompi_mpi_op_max")?,
            any_source: -1,
            undefined: -32766,
            shared: 0,
            single: 0,
            serialized: 2,
            source: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that a header gives a constant, in a `#define` or an `enum`.
    fn number(header: &str, name: &str) -> i64 {
        let of_name = |line: &&str| {
            let line = line.trim_start();
            let words = line.strip_prefix("#define").unwrap_or(line).trim_start();
            words.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '\t', '=']))
        };
        let line = header.lines().find(of_name);
        let line = line.unwrap_or_else(|| panic!("{name} in the header")).split("/*").next().unwrap_or_default();
        let last = line.split(|c: char| !c.is_alphanumeric() && c != '-').rfind(|word| !word.is_empty());
        let last = last.unwrap_or_else(|| panic!("a number in {line}"));
        match last.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => last.parse(),
        }
        .unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// `MANIPLE_TEST_MPI_HEADER` names the header of a library for MPI 5, if there is one.
    #[test]
    fn constants_are_those_of_the_headers() {
        let standard = std::env::var("MANIPLE_TEST_MPI_HEADER").unwrap_or_default();
        let mpich = "/usr/include/x86_64-linux-gnu/mpich/mpi.h".to_owned();
        for (path, abi) in [(standard, Abi::STANDARD), (mpich, Abi::MPICH)] {
            let Ok(header) = std::fs::read_to_string(&path) else {
                eprintln!("SKIPPED: there is no header `{path}`");
                continue;
            };
            let handle = |handle: Handle| match abi.pointers {
                true => <*mut c_void>::from(handle).addr() as i64,
                false => c_int::from(handle).into(),
            };
            for (name, value) in [
                ("MPI_COMM_WORLD", handle(abi.world)),
                ("MPI_INFO_NULL", handle(abi.no_info)),
                ("MPI_ERRORS_RETURN", handle(abi.errors_return)),
                ("MPI_BYTE", handle(abi.byte)),
                ("MPI_DOUBLE", handle(abi.double)),
                ("MPI_SUM", handle(abi.sum)),
                ("MPI_PROD", handle(abi.product)),
                ("MPI_MIN", handle(abi.min)),
                ("MPI_MAX", handle(abi.max)),
                ("MPI_ANY_SOURCE", abi.any_source.into()),
                ("MPI_UNDEFINED", abi.undefined.into()),
                ("MPI_COMM_TYPE_SHARED", abi.shared.into()),
                ("MPI_THREAD_SINGLE", abi.single.into()),
                ("MPI_THREAD_SERIALIZED", abi.serialized.into()),
            ] {
                assert_eq!(value, number(&header, name), "{name} in {path}");
            }
        }
    }
}

//! System calls that the system refuses, as it does on old kernels and under the rules of some containers.
#![allow(dead_code)]

use std::ffi::{c_int, c_ulong};

/// The numbers of the calls.
pub const MEMFD_CREATE: u32 = if cfg!(target_arch = "x86_64") { 319 } else { 279 };
pub const PIDFD_OPEN: u32 = 434;

/// The errors of a kernel that does not know a call, and of a container that forbids it.
pub const ENOSYS: u32 = 38;
pub const EPERM: u32 = 1;

/// An instruction of a filter: what it does, how far it jumps if so and if not, and its number.
#[repr(C)]
struct Instruction(u16, u8, u8, u32);

#[repr(C)]
struct Filter {
    len: u16,
    instructions: *const Instruction,
}

unsafe extern "C" {
    fn prctl(option: c_int, ...) -> c_int;
}

/// From now on these calls end with this error, in this thread and in all threads and processes that it starts.
pub fn deny(calls: &[u32], error: u32) {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let n = calls.len() as u8;
    let mut filter = vec![Instruction(LOAD, 0, 0, 0)];
    // To the last one.
    filter.extend((0..n).zip(calls).map(|(i, call)| Instruction(JUMP_IF_EQUAL, n - i, 0, *call)));
    filter.push(Instruction(RETURN, 0, 0, 0x7fff_0000));
    filter.push(Instruction(RETURN, 0, 0, 0x0005_0000 | error));
    let filter = Filter { len: filter.len() as u16, instructions: filter.leak().as_ptr() };
    const NO_NEW_PRIVILEGES: c_int = 38;
    const SECCOMP: c_int = 22;
    let (by_filter, yes, none): (c_ulong, c_ulong, c_ulong) = (2, 1, 0);
    // SAFETY: As the manual pages have it. The kernel copies the filter.
    let done = unsafe {
        [prctl(NO_NEW_PRIVILEGES, yes, none, none, none), prctl(SECCOMP, by_filter, &raw const filter, none, none)]
    };
    assert_eq!(done, [0, 0], "{}", std::io::Error::last_os_error());
}

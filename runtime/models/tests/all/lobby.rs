//! Models of the allgather of a lobby. A process that waits for ever is a deadlock for loom, and a place that is used too
//! early is a race.

use crate::{OF_SEVERAL, model_bounded};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use maniple_runtime_models::Error;
use maniple_runtime_models::wire::processes::lobby::Lobby;
use maniple_runtime_models::wire::processes::segment::Segment;
use std::sync::Arc;

/// The lobbies of `n` processes.
fn lobbies(n: usize) -> Vec<Arc<Lobby>> {
    let ranks: Vec<u32> = (0..n as u32).collect();
    let memory = Segment::new("a model", 0, 0, true).expect("memory");
    let lobby = |index| Arc::new(Lobby::in_memory(index, ranks.clone(), memory.clone()));
    (0..n).map(lobby).collect()
}

/// Runs `others` on threads, and `first` on this one.
fn run(first: impl FnOnce(), others: Vec<Box<dyn FnOnce() + Send>>) {
    let others: Vec<_> = others.into_iter().map(thread::spawn).collect();
    first();
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// Each process takes part in this many allgathers, and gets what all have given in each.
fn allgathers(n: usize, rounds: u8) {
    model_bounded(OF_SEVERAL, move || {
        let lobbies = lobbies(n);
        let body = |i: usize| {
            let lobby = lobbies[i].clone();
            move || {
                for round in 0..rounds {
                    let given: Vec<Vec<u8>> = (0..n as u8).map(|i| vec![round * 16 + i]).collect();
                    assert_eq!(lobby.allgather(&given[i], Ok), Ok(given.clone()));
                }
            }
        };
        run(body(0), (1..n).map(|i| Box::new(body(i)) as _).collect());
    });
}

#[test]
fn two_processes_use_their_places_again() {
    allgathers(2, 3);
}

/// The third gives to the first; the second reads nobody's gift.
#[test]
fn three_processes_use_their_places_again() {
    allgathers(3, 2);
}

/// The fourth gives to the third, which passes on what it got.
#[test]
fn four_processes_gather() {
    allgathers(4, 1);
}

fn lost(lobby: &Lobby, process: u32) {
    let error = lobby.allgather(&[2], Ok).map(|_| ()).expect_err("one is gone");
    assert!(matches!(error, Error::ProcessLost { process: it, .. } if it == process), "{error}");
}

/// Process `gone` of `n` ends after the first allgather, and `watcher` finds that out. All others learn it from their second
/// allgather.
fn one_ends(n: usize, gone: usize, watcher: usize) {
    model_bounded(OF_SEVERAL, move || {
        let lobbies = lobbies(n);
        let body = |i: usize| {
            let (lobby, watcher) = (lobbies[i].clone(), lobbies[watcher].clone());
            move || {
                assert_eq!(lobby.allgather(&[1], Ok).map(|all| all.len()), Ok(n));
                match i == gone {
                    true => watcher.has_ended(gone, None),
                    false => lost(&lobby, gone as u32),
                }
            }
        };
        run(body(0), (1..n).map(|i| Box::new(body(i)) as _).collect());
    });
}

#[test]
fn the_first_process_that_ends_is_missed() {
    one_ends(2, 0, 1);
    one_ends(3, 0, 2);
}

#[test]
fn another_process_that_ends_is_missed() {
    one_ends(2, 1, 0);
    one_ends(3, 2, 0);
}

/// Two watchers find out that two processes have ended. The others agree on one of them.
#[test]
fn all_miss_the_same_one_of_two() {
    model_bounded(OF_SEVERAL, || {
        let lobbies = lobbies(4);
        let watch = |i: usize, gone: usize| {
            let lobby = lobbies[i].clone();
            move || {
                lobby.has_ended(gone, None);
                lobby.allgather(&[1], Ok).expect_err("two are gone")
            }
        };
        let other = thread::spawn(watch(1, 3));
        let error = watch(0, 2)();
        assert_eq!(other.join().unwrap(), error);
    });
}

/// The process of a run that ends before its end: whoever watches it gives up the run, once it has begun.
#[test]
fn a_run_is_given_up_for_a_process_that_ends_as_it_begins() {
    model_bounded(OF_SEVERAL, || {
        let lobbies = lobbies(2);
        let given_up = Arc::new(AtomicU32::new(0));
        let there = lobbies[0].clone();
        let watch = thread::spawn(move || there.has_ended(1, None));
        let counted = given_up.clone();
        lobbies[0].begin(Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        watch.join().unwrap();
        assert!(given_up.load(Ordering::Relaxed) > 0);
        lost(&lobbies[0], 1);
    });
}

//! `maniple machine`, and the processors that workers are bound to.

use super::{refused, stderr, stdout, succeeds};
use crate::common::maniple_with as maniple;
use serde_json::Value;
#[cfg(feature = "hwloc")]
use std::process::Command;
use std::process::Output;

#[test]
fn the_machine_as_a_tree_and_as_json() {
    let tree = maniple(&["machine"]);
    let json: Value = serde_json::from_str(succeeds(&maniple(&["machine", "--format", "json"]))).expect("JSON");
    let cpus = json["cpus"].as_array().expect("a list");
    assert!(succeeds(&tree).starts_with(&format!("{} processor", cpus.len())), "{}", stdout(&tree));
    // Every processor is in the tree, on a core of a NUMA node that lists it.
    for cpu in cpus {
        let (os, numa) = (cpu["os"].as_u64().expect("a number"), &cpu["numa"]);
        let line = stdout(&tree).lines().find_map(|l| l.strip_prefix(&format!("    core {}: processor ", cpu["core"])));
        let processors = line.expect("its core").split(", ").take_while(|p| !p.starts_with('L'));
        assert!(processors.into_iter().any(|p| p == os.to_string()), "{}", stdout(&tree));
        let node = json["numa"].as_array().expect("a list").iter().find(|n| n["os"] == *numa).expect("its node");
        assert!(node["cpus"].as_array().expect("a list").contains(&cpu["os"]), "{json}");
    }
    let wrong = maniple(&["machine", "--format", "csv"]);
    assert!(refused(&wrong).contains("tree, json"), "{}", stderr(&wrong));
}

/// Runs `f` on the first `n` of this process's processors only. Returns their numbers, and the result of `f`.
fn on_processors<R: Send>(n: usize, f: impl Fn() -> R + Sync) -> (Vec<u64>, R) {
    let of_json = |output: &Output| -> Vec<u64> {
        let json: Value = serde_json::from_str(succeeds(output)).expect("JSON");
        json["cpus"].as_array().expect("a list").iter().map(|cpu| cpu["os"].as_u64().expect("a number")).collect()
    };
    let mut cpus = of_json(&maniple(&["machine", "--format", "json"]));
    cpus.truncate(n);
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu as usize));
    // A process has the mask of the thread that starts it.
    let restricted = || {
        rustix::thread::sched_setaffinity(None, &set).expect("a part of the mask");
        f()
    };
    let result = std::thread::scope(|scope| scope.spawn(restricted).join().expect("no panic"));
    (cpus, result)
}

#[test]
fn the_machine_says_where_workers_would_be_bound() {
    for n in [1, 2] {
        let json = |args: &[&str]| -> Value {
            serde_json::from_str(succeeds(&maniple(&[&["machine", "--format", "json"], args].concat()))).expect("JSON")
        };
        let (cpus, [all, one, more]) =
            on_processors(n, || [json(&[]), json(&["--workers", "1"]), json(&["--workers", "100000"])]);
        let binding = |json: &Value| -> Option<Vec<u64>> {
            let list = json["binding"].as_array()?;
            Some(list.iter().map(|cpu| cpu.as_u64().expect("a number")).collect())
        };
        let mut sorted = binding(&all).expect("as many workers as processors");
        sorted.sort_unstable();
        assert_eq!((sorted, all["workers"].as_u64()), (cpus.clone(), Some(cpus.len() as u64)));
        assert_eq!((binding(&one), binding(&more)), (Some(vec![cpus[0]]), None));
        let (_, trees) = on_processors(n, || (maniple(&["machine"]), maniple(&["machine", "--workers", "99999"])));
        let names: Vec<String> = binding(&all).into_iter().flatten().map(|cpu| cpu.to_string()).collect();
        let bound = format!("--bind cores: workers on processors {}, in this order\n", names.join(", "));
        assert!(succeeds(&trees.0).ends_with(&bound), "{}", stdout(&trees.0));
        let not = format!("--bind cores: not bound: more workers than processors ({})\n", cpus.len());
        assert!(succeeds(&trees.1).ends_with(&not), "{}", stdout(&trees.1));
        let with = json(&["--workers", "3", "--utility", "2"]);
        let found = [&with["workers"], &with["utility"], &all["utility"]].map(Value::as_u64);
        assert_eq!(found, [Some(3), Some(2), Some(0)]);
        if n == 2 && cpus.len() == 2 {
            let (_, tree) = on_processors(n, || maniple(&["machine", "--utility", "1"]));
            let last = "--utility 1 --bind cores: workers on processors";
            assert!(succeeds(&tree).contains(last), "{}", stdout(&tree));
            assert!(
                stdout(&tree).ends_with("in this order; the last one is the utility processor\n"),
                "{}",
                stdout(&tree)
            );
        }
    }
    assert!(refused(&maniple(&["machine", "--workers", "0"])).starts_with("--workers: expected at least 1"));
}

#[test]
fn workers_that_cannot_be_bound_are_one_warning_for_all_runs() {
    for args in [
        &["stencil", "--iterations", "5", "--repeat", "3"][..],
        &["collective", "--kind", "allreduce", "--elements", "1", "--iterations", "5", "--repeat", "3"],
        &["weak-scaling", "--shards", "2", "--iterations", "5", "--repeat", "2"],
    ] {
        let with = |more: &[&str]| maniple(&[args, more].concat());
        let (_, (two, one)) = on_processors(1, || {
            (with(&["--workers", "2", "--bind", "cores"]), with(&["--workers", "1", "--bind", "cores"]))
        });
        let warned = "maniple: warning: some or all workers are not bound: more workers (2) than processors (1)\n";
        assert_eq!((two.status.code(), stderr(&two)), (Some(0), warned), "{args:?}");
        succeeds(&one);
        let wrong = with(&["--bind", "sockets"]);
        assert!(refused(&wrong).contains("'sockets'") && stderr(&wrong).contains("[possible values: none, cores]"));
    }
}

#[test]
fn utility_processors_are_fewer_than_the_workers() {
    for args in [
        &["stencil", "--iterations", "5", "--repeat", "2"][..],
        &["tasks", "--count", "100", "--repeat", "2"],
        &["gang", "--shards", "5", "--repeat", "2"],
        &["memory", "--shards", "5", "--repeat", "1"],
        &["weak-scaling", "--shards", "2", "--iterations", "5", "--repeat", "2"],
    ] {
        let with = |more: &[&str]| maniple(&[args, more].concat());
        succeeds(&with(&["--workers", "3", "--utility", "2"]));
        let message = "expected fewer utility processors than 2 workers, found 2";
        assert_eq!(refused(&with(&["--workers", "2", "--utility", "2"])), message, "{args:?}");
    }
}

/// hwloc's own variable makes it tell of another host.
#[cfg(feature = "hwloc")]
#[test]
fn hwloc_is_asked_first_and_not_believed_where_it_knows_too_little() {
    let machine = |synthetic: Option<&str>| -> Value {
        let mut command = Command::new(crate::MANIPLE);
        command.args(["machine", "--format", "json"]).envs(synthetic.map(|text| ("HWLOC_SYNTHETIC", text)));
        serde_json::from_str(succeeds(&command.output().expect("starts"))).expect("JSON")
    };
    let (cpus, here) = on_processors(usize::MAX, || machine(None));
    let packages = cpus.last().expect("a processor") + 1;
    let made_up = machine(Some(&format!("package:{packages} l2:1(size=4MiB) core:1 pu:1")));
    assert_eq!((&here["source"], &made_up["source"]), (&"hwloc".into(), &"hwloc".into()));
    // There each processor has a package, a core and a cache of its own.
    for (cpu, &os) in made_up["cpus"].as_array().expect("a list").iter().zip(&cpus) {
        assert_eq!((cpu["os"].as_u64(), cpu["package"].as_u64(), cpu["core"].as_u64()), (Some(os), Some(os), Some(os)));
    }
    let caches = made_up["caches"].as_array().expect("a list");
    assert!(caches.iter().all(|c| c["level"] == 2 && c["bytes"] == 4 << 20), "{made_up}");
    assert_eq!(caches.len(), cpus.len());
    if cpus != [0] {
        let elsewhere = machine(Some("core:1 pu:1"));
        assert_eq!((&elsewhere["source"], &elsewhere["cpus"]), (&"sys".into(), &here["cpus"]));
    }
}

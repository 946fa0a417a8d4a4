//! Task Bench's library, as `core/core_c.h` declares it.

use maniple::prelude::Get;
use smallvec::SmallVec;
use std::ffi::{CString, c_char, c_double, c_int, c_long, c_void};
use std::ops::Range;
use std::sync::{Arc, Mutex};

#[repr(C)]
#[derive(Clone, Copy)]
struct Kernel {
    kind: c_int,
    iterations: c_long,
    samples: c_int,
    imbalance: c_double,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CGraph {
    graph_index: c_long,
    timesteps: c_long,
    max_width: c_long,
    dependence: c_int,
    radix: c_long,
    period: c_long,
    fraction_connected: c_double,
    kernel: Kernel,
    output_bytes_per_task: usize,
    scratch_bytes_per_task: usize,
    nb_fields: c_int,
}

#[repr(C)]
struct Interval {
    start: c_long,
    end: c_long,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

unsafe extern "C" {
    fn interval_list_destroy(intervals: Handle);
    fn interval_list_num_intervals(intervals: Handle) -> c_long;
    fn interval_list_interval(intervals: Handle, index: c_long) -> Interval;
    fn task_graph_offset_at_timestep(graph: CGraph, timestep: c_long) -> c_long;
    fn task_graph_width_at_timestep(graph: CGraph, timestep: c_long) -> c_long;
    fn task_graph_max_dependence_sets(graph: CGraph) -> c_long;
    fn task_graph_dependence_set_at_timestep(graph: CGraph, timestep: c_long) -> c_long;
    fn task_graph_dependencies(graph: CGraph, dset: c_long, point: c_long) -> Handle;
    fn task_graph_execute_point_scratch(
        graph: CGraph,
        timestep: c_long,
        point: c_long,
        output: *mut c_char,
        output_bytes: usize,
        inputs: *const *const c_char,
        input_bytes: *const usize,
        n_inputs: usize,
        scratch: *mut c_char,
        scratch_bytes: usize,
    );
    fn task_graph_prepare_scratch(scratch: *mut c_char, bytes: usize);
    fn task_graph_list_num_task_graphs(graphs: Handle) -> c_long;
    fn task_graph_list_task_graph(graphs: Handle, index: c_long) -> CGraph;
    fn app_create(argc: c_int, argv: *mut *mut c_char) -> Handle;
    fn app_task_graphs(app: Handle) -> Handle;
    fn app_check(app: Handle);
    fn app_display(app: Handle);
    fn app_report_timing(app: Handle, elapsed_seconds: c_double);
}

/// What Task Bench's options ask for.
pub struct App(Handle);

impl App {
    /// From options such as `-type stencil_1d -width 8 -steps 1000`. The library ends the process at one it does not know.
    pub fn new(options: impl Iterator<Item = String>) -> Self {
        let options: Vec<CString> = options.map(|o| CString::new(o).expect("no zero byte in an option")).collect();
        let mut argv: Vec<*mut c_char> = options.iter().map(|o| o.as_ptr().cast_mut()).collect();
        // SAFETY: `argv` are strings that live until the call returns; the library copies what it keeps.
        let app = unsafe { app_create(argv.len() as c_int, argv.as_mut_ptr()) };
        // SAFETY: `app` was made above.
        unsafe { app_check(app) };
        Self(app)
    }

    pub fn graphs(&self) -> Vec<Arc<Graph>> {
        // SAFETY: the app is alive, and the indices are within its list.
        unsafe {
            let list = app_task_graphs(self.0);
            (0..task_graph_list_num_task_graphs(list))
                .map(|i| Arc::new(Graph { graph: task_graph_list_task_graph(list, i), steps: Mutex::default() }))
                .collect()
        }
    }

    pub fn display(&self) {
        // SAFETY: the app is alive.
        unsafe { app_display(self.0) };
    }

    pub fn report_timing(&self, seconds: f64) {
        // SAFETY: the app is alive.
        unsafe { app_report_timing(self.0, seconds) };
    }
}

/// One graph: at each timestep a row of tasks, each of which needs the outputs of some tasks of the row before.
pub struct Graph {
    graph: CGraph,
    steps: Mutex<Arc<[Step]>>,
}

/// A timestep of a graph.
#[derive(Default)]
pub struct Step {
    /// The points that have a task.
    pub row: Range<u32>,
    /// The set of dependences that is in force.
    pub set: usize,
}

impl Graph {
    /// Asks the library about all timesteps, once for all points. Other drivers also ask within the time that is measured.
    pub fn look_up(&self) {
        let graph = self.graph;
        // SAFETY: plain functions of the graph's numbers.
        let step = |timestep| unsafe {
            let offset = task_graph_offset_at_timestep(graph, timestep) as u32;
            let width = task_graph_width_at_timestep(graph, timestep) as u32;
            let set = task_graph_dependence_set_at_timestep(graph, timestep) as usize;
            Step { row: offset..offset + width, set }
        };
        let none = || [Step::default()].into_iter();
        let steps = none().chain((0..graph.timesteps).map(step)).chain(none()).collect();
        *self.steps.lock().expect("nobody panics with it") = steps;
    }

    /// All timesteps, between two without tasks.
    pub fn steps(&self) -> Arc<[Step]> {
        self.steps.lock().expect("nobody panics with it").clone()
    }

    pub fn width(&self) -> u32 {
        self.graph.max_width as u32
    }

    pub fn output_bytes(&self) -> usize {
        self.graph.output_bytes_per_task
    }

    pub fn scratch_bytes(&self) -> usize {
        self.graph.scratch_bytes_per_task
    }

    pub fn sets(&self) -> i64 {
        // SAFETY: a plain function of the graph's numbers.
        unsafe { task_graph_max_dependence_sets(self.graph) }
    }

    /// The points whose outputs a point needs under a set, in the order in which its task takes them.
    pub fn needs(&self, set: i64, point: u32) -> Vec<u32> {
        let mut points = Vec::new();
        // SAFETY: the list is read within its length and destroyed once.
        unsafe {
            let list = task_graph_dependencies(self.graph, set, point.into());
            for i in 0..interval_list_num_intervals(list) {
                let Interval { start, end } = interval_list_interval(list, i);
                points.extend((start..=end).map(|p| p as u32));
            }
            interval_list_destroy(list);
        }
        points
    }

    pub fn prepare(&self, scratch: &mut [u8]) {
        // SAFETY: the slice is what is written.
        unsafe { task_graph_prepare_scratch(scratch.as_mut_ptr().cast(), scratch.len()) };
    }

    /// Runs a task: checks its inputs, works, and fills its output. The library ends the process at a wrong input.
    pub fn execute(&self, timestep: i64, point: u32, output: &mut [u8], inputs: &[Get<u8>], scratch: &mut [u8]) {
        let pointers: SmallVec<[*const c_char; 16]> = inputs.iter().map(|i| i.as_ptr().cast()).collect();
        let bytes: SmallVec<[usize; 16]> = inputs.iter().map(|i| i.len()).collect();
        // SAFETY: every pointer is to as many bytes as is said; only output and scratch are written.
        unsafe {
            task_graph_execute_point_scratch(
                self.graph,
                timestep,
                point.into(),
                output.as_mut_ptr().cast(),
                output.len(),
                pointers.as_ptr(),
                bytes.as_ptr(),
                inputs.len(),
                scratch.as_mut_ptr().cast(),
                scratch.len(),
            );
        }
    }
}

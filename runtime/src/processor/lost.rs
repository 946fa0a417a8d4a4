//! A processor that is lost ends the run for all: who waits here is told why, as what it waits for may never come, and
//! whatever is begun later fails with the same cause. So every task that goes on comes to its end, and no value is made
//! of what has not come.

use crate::Error;
use crate::ids::ObjectId;
use crate::object::Object;
use crate::processor::Core;
use std::rc::Rc;

impl Core {
    /// Why nothing that comes from others can be relied on, if a processor is lost.
    #[inline]
    pub fn lost(&self) -> Option<&Error> {
        self.lost.get().map(|e| &**e)
    }

    /// Takes in that a processor is lost. The first one is the cause.
    #[cold]
    pub(crate) fn lose(self: &Rc<Self>, error: Error) {
        #[cfg(feature = "plant")]
        if self.config.strikes(crate::plant::Bug::SilentDeath) {
            return;
        }
        if self.lost.set(Box::new(error.clone())).is_err() {
            return;
        }
        self.note_failure(&error);
        for object in 0..self.known() {
            self.give_up_object(object, &error);
        }
        self.refuse_all_data(&error);
        self.start_operations();
        self.give_up_launches(&error);
    }

    /// Generations that are not complete will not be, and calls that are not over fail.
    #[cold]
    pub(crate) fn give_up_object(self: &Rc<Self>, object: ObjectId, error: &Error) {
        let Some(local) = self.local(object) else { return };
        match &*local.object {
            Object::Pairs(_) => {
                let due = local.bank.borrow_mut().poison_all(error);
                for waiting in due {
                    self.notify_poison(waiting, || error.clone());
                }
            }
            Object::Phase(_) => self.poison_phase(object, 0, error.clone()),
            Object::Replay(replay) => {
                for position in 0..replay.gang.members[self.id as usize].len() as u32 {
                    self.fail_chains(&local, position, error);
                }
            }
            Object::Tree(_) | Object::Task(_) | Object::Gang(_) => {}
        }
    }
}

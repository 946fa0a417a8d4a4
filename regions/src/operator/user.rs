//! Operators of a program's own, and the laws that it declares for them.

use std::sync::Arc;

use bytemuck::Pod;

use super::{Implementation, Laws, Operator};

/// What a program declares of its operator.
pub(super) struct User<T> {
    pub name: Arc<str>,
    pub laws: Laws,
    pub identity: Option<T>,
    inverse: Option<Arc<dyn Fold<T>>>,
}

impl<T: Clone> Clone for User<T> {
    fn clone(&self) -> Self {
        let Self { name, laws, identity, inverse } = self;
        Self { name: name.clone(), laws: *laws, identity: identity.clone(), inverse: inverse.clone() }
    }
}

impl<T> User<T> {
    pub fn undo(&self, running: &mut [T], removed: &[T]) {
        match &self.inverse {
            Some(inverse) => inverse.higher(running, removed),
            None => unreachable!("only an inverse makes an operator invertible"),
        }
    }
}

impl<T: Pod + Send + Sync> Operator<T> {
    /// Makes an operator of the program's own, which computes `f(lower, higher)` for one element.
    ///
    /// `f` must give the same result for the same operands on every rank, or ranks end with different values. It need
    /// be neither commutative nor associative: operands come in order. It must not call the framework, because a
    /// collective is running. `name` appears in errors and figures, and makes the operator's [`id`](Self::id). Processes compare
    /// operators by name, laws and identity. They can't see what `f` captures, so give the name all that it depends on.
    ///
    /// Declared laws open the way to more algorithms. They must hold bit for bit, for all elements that can occur, and for
    /// panics too: both sides of an equation panic, or neither. So checked addition commutes, but is not associative:
    /// (`MAX` + 1) + −1 panics, and `MAX` + (1 + −1) does not. [`sample`](Self::sample) tries laws on three elements.
    ///
    /// ```
    /// use maniple_regions::Operator;
    ///
    /// let modulus = 1_000_003;
    /// let product = Operator::user("product modulo 1000003", move |a: &u64, b: &u64| a * b % modulus)
    ///     .associative()
    ///     .commutative()
    ///     .infallible()
    ///     .with_identity(1);
    /// assert_eq!(product.combine(&1_000_002, &1_000_002), 1);
    /// assert_eq!(product.identity(), Some(1));
    /// product.sample(2, 3, 1_000_002)?;
    /// # Ok::<(), maniple_regions::BrokenLaw>(())
    /// ```
    pub fn user(name: &str, f: impl Fn(&T, &T) -> T + Send + Sync + 'static) -> Self {
        let user = User { name: name.into(), laws: Laws::NONE, identity: None, inverse: None };
        Operator { implementation: Implementation::User(Arc::new(f), Arc::new(user)) }
    }

    /// Declares that (a ⊕ b) ⊕ c = a ⊕ (b ⊕ c). The laws of a built-in operator are known, and stay as they are.
    pub fn associative(self) -> Self {
        self.declare(|user| user.laws.associative = true)
    }

    /// Declares that a ⊕ b = b ⊕ a. The laws of a built-in operator are known, and stay as they are.
    pub fn commutative(self) -> Self {
        self.declare(|user| user.laws.commutative = true)
    }

    /// Declares that a ⊕ a = a. The laws of a built-in operator are known, and stay as they are.
    pub fn idempotent(self) -> Self {
        self.declare(|user| user.laws.idempotent = true)
    }

    /// Declares that the function never panics. Algorithms in which each shard has brackets of its own need that:
    /// otherwise it might fail on some shards of a call and not on others. Built-in operators never panic.
    pub fn infallible(self) -> Self {
        self.declare(|user| user.laws.infallible = true)
    }

    /// Declares that `identity` ⊕ a = a = a ⊕ `identity`. A built-in operator keeps its own identity.
    pub fn with_identity(self, identity: T) -> Self {
        self.declare(|user| user.identity = Some(identity))
    }

    /// Declares that `inverse(a ⊕ b, b)` = a, which makes the operator invertible. A built-in operator keeps its own
    /// inverse.
    pub fn with_inverse(self, inverse: impl Fn(&T, &T) -> T + Send + Sync + 'static) -> Self {
        self.declare(|user| {
            user.laws.invertible = true;
            user.inverse = Some(Arc::new(inverse));
        })
    }

    fn declare(mut self, change: impl FnOnce(&mut User<T>)) -> Self {
        if let Implementation::User(_, user) = &mut self.implementation {
            change(Arc::make_mut(user));
        }
        self
    }
}

/// A user's function over slices. The call through a pointer is paid once for each slice, and the loop inlines the
/// function.
pub(super) trait Fold<T>: Send + Sync {
    fn higher(&self, running: &mut [T], incoming: &[T]);
    fn lower(&self, running: &mut [T], incoming: &[T]);
    fn elsewhere(&self, out: &mut [T], lower: &[T], higher: &[T]);
}

impl<T: Copy, F: Fn(&T, &T) -> T + Send + Sync> Fold<T> for F {
    fn higher(&self, running: &mut [T], incoming: &[T]) {
        for (mine, theirs) in running.iter_mut().zip(incoming) {
            *mine = self(mine, theirs);
        }
    }

    fn lower(&self, running: &mut [T], incoming: &[T]) {
        for (mine, theirs) in running.iter_mut().zip(incoming) {
            *mine = self(theirs, mine);
        }
    }

    fn elsewhere(&self, out: &mut [T], lower: &[T], higher: &[T]) {
        for (out, (lower, higher)) in out.iter_mut().zip(lower.iter().zip(higher)) {
            *out = self(lower, higher);
        }
    }
}

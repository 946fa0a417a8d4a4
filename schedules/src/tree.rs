//! Combining trees for barriers of many processors.

/// The tree along which the processors of one barrier combine arrivals (up) and pass releases (down).
///
/// Members are processors, in the order given. Member 0 is the root, and the parent of member i is (i − 1) / arity. So a
/// barrier on W processors costs at most 2·(W − 1) messages a generation. The longest chain of them is twice the depth of
/// the tree, which grows as the logarithm of W if the arity is 2 or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CombiningTree<M> {
    members: Vec<M>,
    arity: usize,
}

impl<M: Copy + PartialEq> CombiningTree<M> {
    /// Makes a tree over `members`, each named once, with at most `arity` children a member. An arity of 0 counts as 1.
    pub fn new(members: Vec<M>, arity: usize) -> Self {
        Self { members, arity: arity.max(1) }
    }

    /// All members, the root first.
    pub fn members(&self) -> &[M] {
        &self.members
    }

    /// The parent of `member`. `None` for the root, and for a processor that is no member.
    pub fn parent(&self, member: M) -> Option<M> {
        let i = self.position(member)?;
        (i > 0).then(|| self.members[(i - 1) / self.arity])
    }

    /// The children of `member`. None for a processor that is no member.
    pub fn children(&self, member: M) -> &[M] {
        let Some(i) = self.position(member) else {
            return &[];
        };
        let first = (i * self.arity + 1).min(self.members.len());
        let last = (first + self.arity).min(self.members.len());
        &self.members[first..last]
    }

    fn position(&self, member: M) -> Option<usize> {
        self.members.iter().position(|&m| m == member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_but_the_root_has_one_parent_that_knows_it() {
        for n in 1..40 {
            for arity in 1..5 {
                let members: Vec<u32> = (0..n).map(|i| 100 + 7 * i).collect();
                let tree = CombiningTree::new(members.clone(), arity);
                assert_eq!((tree.members(), tree.parent(100)), (&members[..], None));
                for &m in &members[1..] {
                    let parent = tree.parent(m).unwrap();
                    assert!(tree.children(parent).contains(&m));
                    assert!(tree.children(parent).len() <= arity);
                }
                let children: usize = members.iter().map(|&m| tree.children(m).len()).sum();
                assert_eq!(children as u32, n - 1);
            }
        }
    }
}

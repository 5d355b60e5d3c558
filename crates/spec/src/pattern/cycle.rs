//! Finds dependency cycles.

/// The members of a cycle, with the first one again at the end; `None` if there is no cycle.
/// `deps[n]` has the indexes that `n` depends on.
pub fn find_cycle(deps: &[&[usize]]) -> Option<Vec<usize>> {
    let mut missing: Vec<usize> = deps.iter().map(|deps| deps.len()).collect();
    let mut needed_by = vec![Vec::new(); deps.len()];
    for (index, deps) in deps.iter().enumerate() {
        for dep in *deps {
            needed_by[*dep].push(index);
        }
    }
    let mut ready: Vec<usize> = (0..deps.len()).filter(|one| missing[*one] == 0).collect();
    while let Some(one) = ready.pop() {
        for next in &needed_by[one] {
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    // Each remaining item depends on another remaining item, so following dependencies runs into a
    // cycle.
    let mut walk = vec![(0..deps.len()).find(|one| missing[*one] > 0)?];
    loop {
        let here = *walk.last().expect("it begins with one");
        let next = deps[here].iter().find(|dep| missing[**dep] > 0)?;
        if let Some(start) = walk.iter().position(|one| one == next) {
            walk.drain(..start);
            walk.push(*next);
            return Some(walk);
        }
        walk.push(*next);
    }
}

//! Arranges steps as a tree by their paths: related steps are grouped, and long ranges of finished
//! steps are collapsed.

use std::collections::HashMap;

/// How many finished siblings are shown.
const SHOWN: usize = 60;

/// A line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) depth: usize,
    pub(crate) kind: LineKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// The step with this index.
    Step(usize),
    /// A group of steps, with their common path.
    Group {
        path: String,
        finished: usize,
        steps: usize,
    },
    /// A number of finished steps that are not shown.
    Folded(usize),
}

/// Arranges steps in the given order. The flag says whether a step is finished. Of many finished
/// siblings only the first and the last are shown, unless `all` is set.
pub(crate) fn lines<'a>(steps: impl IntoIterator<Item = (&'a str, bool)>, all: bool) -> Vec<Line> {
    let tree = Tree::build(steps);
    // A group that contains everything is not shown.
    let mut top = 0;
    while let [only] = tree.0[top].children[..]
        && tree.0[only].step.is_none()
    {
        top = only;
    }
    let mut lines = Vec::new();
    tree.push_children(top, 0, all, &mut lines);
    lines
}

/// The nodes; the first one is the root.
struct Tree(Vec<Node>);

#[derive(Default)]
struct Node {
    path: String,
    step: Option<usize>,
    children: Vec<usize>,
    /// Number of steps in this subtree, and how many of them are finished.
    steps: usize,
    finished: usize,
}

impl Tree {
    fn build<'a>(steps: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let mut nodes = vec![Node::default()];
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (number, (path, finished)) in steps.into_iter().enumerate() {
            let mut here = 0;
            let ends = path.match_indices('/').map(|(end, _)| end);
            for end in ends.chain([path.len()]) {
                nodes[here].steps += 1;
                nodes[here].finished += usize::from(finished);
                let before = here;
                here = *places.entry(&path[..end]).or_insert_with(|| {
                    nodes.push(Node {
                        path: path[..end].to_owned(),
                        ..Node::default()
                    });
                    let made = nodes.len() - 1;
                    nodes[before].children.push(made);
                    made
                });
            }
            nodes[here].steps += 1;
            nodes[here].finished += usize::from(finished);
            nodes[here].step = Some(number);
        }
        Self(nodes)
    }

    fn push_children(&self, node: usize, depth: usize, all: bool, lines: &mut Vec<Line>) {
        let children = &self.0[node].children;
        let done = |child: &usize| self.0[*child].finished == self.0[*child].steps;
        let finished = children.iter().filter(|child| done(child)).count();
        let hidden = if all || finished <= SHOWN {
            0..0
        } else {
            SHOWN / 2..finished - SHOWN / 2
        };
        let (mut position, mut folded) = (0, 0);
        for child in children {
            let hide = done(child) && hidden.contains(&position);
            position += usize::from(done(child));
            if hide {
                folded += self.0[*child].steps;
                continue;
            }
            fold(&mut folded, depth, lines);
            self.push_node(*child, depth, all, lines);
        }
        fold(&mut folded, depth, lines);
    }

    fn push_node(&self, node: usize, depth: usize, all: bool, lines: &mut Vec<Line>) {
        let here = &self.0[node];
        let kind = match (here.step, &here.children[..]) {
            (Some(number), _) => LineKind::Step(number),
            // A group with one child is not shown.
            (None, [only]) => return self.push_node(*only, depth, all, lines),
            (None, _) => LineKind::Group {
                path: here.path.clone(),
                finished: here.finished,
                steps: here.steps,
            },
        };
        lines.push(Line { depth, kind });
        self.push_children(node, depth + 1, all, lines);
    }
}

fn fold(folded: &mut usize, depth: usize, lines: &mut Vec<Line>) {
    match std::mem::take(folded) {
        0 => {}
        steps => lines.push(Line {
            depth,
            kind: LineKind::Folded(steps),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(paths: &[&str], all: bool) -> Vec<String> {
        let steps = paths
            .iter()
            .map(|path| (path.trim_end_matches('!'), !path.ends_with('!')));
        let line = |line: &Line| {
            let kind = match &line.kind {
                LineKind::Step(number) => paths[*number].to_owned(),
                LineKind::Group {
                    path,
                    finished,
                    steps,
                } => format!("{path} {finished}/{steps}"),
                LineKind::Folded(steps) => format!("+{steps}"),
            };
            format!("{}{kind}", "  ".repeat(line.depth))
        };
        lines(steps, all).iter().map(line).collect()
    }

    #[test]
    fn common_path_is_not_shown() {
        assert_eq!(
            drawn(&["steps/0", "steps/1!"], false),
            ["steps/0", "steps/1!"]
        );
        assert_eq!(drawn(&["tasks/x"], false), ["tasks/x"]);
        assert_eq!(drawn(&[], false), [""; 0]);
    }

    #[test]
    fn branches_are_grouped() {
        let paths = [
            "branches/left/steps/0",
            "branches/right/steps/0",
            "branches/left/steps/1",
            "reduce",
        ];
        assert_eq!(
            drawn(&paths, false),
            [
                "branches 3/3",
                "  branches/left/steps 2/2",
                "    branches/left/steps/0",
                "    branches/left/steps/1",
                "  branches/right/steps/0",
                "reduce",
            ]
        );
    }

    #[test]
    fn repair_is_below_its_step() {
        let paths = ["steps/0", "steps/0/repair", "steps/1"];
        assert_eq!(
            drawn(&paths, false),
            ["steps/0", "  steps/0/repair", "steps/1"]
        );
    }

    #[test]
    fn many_finished_siblings_are_collapsed() {
        let paths: Vec<String> = (0..1000)
            .map(|n| format!("steps/{n}{}", if n == 500 { "!" } else { "" }))
            .collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let short = drawn(&paths, false);
        assert_eq!(short.len(), 63);
        assert_eq!(
            short[29..34],
            ["steps/29", "+470", "steps/500!", "+469", "steps/970"]
        );
        assert_eq!(drawn(&paths, true).len(), 1000);
        assert_eq!(drawn(&paths[..60], false).len(), 60);
    }
}

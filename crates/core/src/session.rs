//! Sessions, and the one table that defines how a session's status may change.

use crate::words::words;

words! {
    /// The kind of a session.
    Kind {
        /// A spec that the engine runs.
        Workflow = "workflow",
        /// A conversation that a CLI agent had without Segno: a chat with that agent.
        Agent = "agent",
        /// A conversation, turn by turn.
        Chat = "chat",
    }
}

impl Kind {
    /// Whether the session is a conversation that takes one message after the other.
    pub fn is_chat(self) -> bool {
        matches!(self, Self::Agent | Self::Chat)
    }
}

words! {
    /// The pattern of a workflow, by its name in the spec format.
    PatternKind {
        /// Steps one after the other.
        Chain = "chain",
        /// Tasks with dependencies.
        Workflow = "workflow",
        /// One of several routes.
        Routing = "routing",
        /// Branches at the same time.
        Parallel = "parallel",
        /// Drafts that are revised.
        EvaluatorOptimizer = "evaluator_optimizer",
        /// Rounds of workers.
        OrchestratorWorkers = "orchestrator_workers",
        /// Nodes and edges.
        Graph = "graph",
        /// A plan of tasks in a repository.
        Plan = "plan",
    }
}

words! {
    /// The status of a session.
    Status {
        /// A worker is to run it.
        Pending = "pending",
        /// A run holds the lease.
        Running = "running",
        /// Waits for the user.
        Waiting = "waiting",
        /// Stopped on purpose; resumable.
        Paused = "paused",
        /// Its run was lost; resumable.
        Interrupted = "interrupted",
        Completed = "completed",
        /// A step failed permanently; resumable.
        Failed = "failed",
        /// Cancelled permanently by a user.
        Cancelled = "cancelled",
        /// A chat without messages for a long time: archived, resumable.
        Expired = "expired",
    }
}

use Status::{
    Cancelled, Completed, Expired, Failed, Interrupted, Paused, Pending, Running, Waiting,
};

/// Which status may follow which. Everything else about statuses is derived from this table.
const TRANSITIONS: &[(Status, &[Status])] = &[
    (
        Pending,
        &[
            Running,
            Waiting,
            Paused,
            Interrupted,
            Failed,
            Cancelled,
            Expired,
        ],
    ),
    (
        Running,
        &[
            Waiting,
            Paused,
            Interrupted,
            Completed,
            Failed,
            Cancelled,
            Expired,
        ],
    ),
    (
        Waiting,
        &[Pending, Running, Paused, Interrupted, Cancelled, Expired],
    ),
    (Paused, &[Pending, Running, Cancelled, Expired]),
    (Interrupted, &[Pending, Running, Cancelled, Expired]),
    (Failed, &[Pending, Running, Cancelled, Expired]),
    (Completed, &[]),
    (Cancelled, &[]),
    (Expired, &[Pending, Running, Cancelled]),
];

impl Status {
    /// Whether `next` may follow. Setting the same status again changes nothing and is allowed.
    pub fn may_become(self, next: Status) -> bool {
        self == next || self.successors().contains(&next)
    }

    /// Whether the session is archived: hidden until a user asks for it by name.
    pub fn is_archived(self) -> bool {
        self == Expired
    }

    /// Whether no other status can follow.
    pub fn is_final(self) -> bool {
        self.successors().is_empty()
    }

    /// Whether a user may resume the session. A session with status `running` counts: if its owner
    /// process is gone, it was interrupted; if not, the lease refuses.
    pub fn is_resumable(self) -> bool {
        self == Running || self.may_become(Running)
    }

    fn successors(self) -> &'static [Status] {
        TRANSITIONS
            .iter()
            .find_map(|(from, to)| (*from == self).then_some(*to))
            .expect("the table has a row for every status")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_and_words_stay_as_they_are() {
        let row = |status: &Status| {
            let next: Vec<_> = status.successors().iter().map(|it| it.as_str()).collect();
            assert_eq!(status.as_str().parse(), Ok(*status));
            format!("{status}: {}", next.join(" "))
        };
        let table: Vec<String> = Status::ALL.iter().map(row).collect();
        assert_eq!(
            table,
            [
                "pending: running waiting paused interrupted failed cancelled expired",
                "running: waiting paused interrupted completed failed cancelled expired",
                "waiting: pending running paused interrupted cancelled expired",
                "paused: pending running cancelled expired",
                "interrupted: pending running cancelled expired",
                "completed: ",
                "failed: pending running cancelled expired",
                "cancelled: ",
                "expired: pending running cancelled",
            ]
        );
        assert_eq!(TRANSITIONS.len(), Status::ALL.len());
    }

    #[test]
    fn final_statuses_have_no_successors() {
        let over: Vec<_> = Status::ALL
            .iter()
            .filter(|status| status.is_final())
            .collect();
        assert_eq!(over, [&Completed, &Cancelled]);
    }

    #[test]
    fn failed_and_expired_sessions_are_resumable() {
        let resumable: Vec<_> = Status::ALL.iter().filter(|s| s.is_resumable()).collect();
        assert_eq!(
            resumable,
            [
                &Pending,
                &Running,
                &Waiting,
                &Paused,
                &Interrupted,
                &Failed,
                &Expired
            ]
        );
    }

    #[test]
    fn the_same_status_again_is_allowed() {
        assert!(Status::ALL.iter().all(|status| status.may_become(*status)));
    }
}

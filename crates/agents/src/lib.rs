//! Drivers: how each sort of agent is spoken to. One folder each.

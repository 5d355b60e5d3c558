//! Reads workflow specs.

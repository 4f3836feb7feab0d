// Package ticket sells each seat once.
//
// SQL is the truth: PostgreSQL in production, SQLite embedded, the same schema,
// code and tests for both.
package ticket

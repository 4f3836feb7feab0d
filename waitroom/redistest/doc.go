// Package redistest gives a test a Redis server of its own: a real one in its own
// process, port and directory, or miniredis in this process. It can be killed,
// frozen, stopped and started again, and a proxy in front of it can delay or cut
// the replies of scripts.
//
// A machine without redis-server skips the tests that ask for one, and says so;
// with CI=true in the environment that is a failure.
package redistest

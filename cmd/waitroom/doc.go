// Command waitroom is the whole of Waitroom in one binary: the service
// (serve), the crowd to try it with (load), and the operator's commands.
//
// This package only wires: it reads the configuration, opens the stores, makes
// each component with New, puts their Run methods into groups, and ends them in
// an order that is written down in serve.go. Decisions live in the packages
// below; none is made here.
//
// Exit status: 0 when all went well, 1 when something outside failed (a server
// that cannot be reached, a promise that a load run saw broken), 2 when what it
// was given is wrong: a flag, a variable, a file.
package main

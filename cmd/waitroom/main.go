package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run executes one command line and turns its error into one clear line and an
// exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand() //nolint:contextcheck // commands take theirs from ExecuteContext
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if status, ok := errors.AsType[*exitError](err); ok {
		if status.err != nil {
			printError(stderr, status.err)
		}
		return status.status
	}
	printError(stderr, err)
	return exitFailed
}

// printError writes the one line that a failed command ends with.
func printError(w io.Writer, err error) {
	fmt.Fprintln(w, "waitroom: "+strings.ReplaceAll(err.Error(), "\n", "; "))
}

// exitError is an error with the status that the process is to end with; without
// an err everything has been said already.
type exitError struct {
	status int
	err    error
}

// Error is the cause's text.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

// Unwrap is the cause.
func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as the caller's: exit status 2.
func usage(err error) error { return &exitError{status: exitUsage, err: err} }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "waitroom",
		Short:         "A virtual waiting room: a fair place for everyone, and each seat sold once",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q; see waitroom --help", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
	})
	root.AddCommand(
		newServeCommand(),
		newLoadCommand(),
		newSimulateCommand(),
		newEventCommand(),
		newOperatorsCommand(),
		newGateCommand(),
		newKeysCommand(),
		newMigrateCommand(),
		newAuditCommand(),
		newVerifyCommand(),
		newSandboxCommand(),
	)
	return root
}

// noArgs refuses anything that is not a flag.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("%s takes no argument %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath()))
	}
	return nil
}

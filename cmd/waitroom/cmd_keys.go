package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/admission"
)

// newKeysCommand groups what one does with the file that serve takes as --keys.
func newKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "Make, list and rotate the keys that sign tokens and receipts",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q; see waitroom keys --help", args[0]))
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "make FILE", Short: "Make a file with fresh keys", Args: wantArgs("FILE"),
			RunE: func(cmd *cobra.Command, args []string) error {
				if _, err := os.Stat(args[0]); !errors.Is(err, fs.ErrNotExist) {
					return usage(fmt.Errorf("%s exists already; rotate keeps what it signed good", args[0]))
				}
				keys, err := admission.KeepKeys(args[0])
				if err != nil {
					return err
				}
				return printKeys(cmd, keys)
			},
		},
		&cobra.Command{
			Use: "list FILE", Short: "List the ids of the keys, the signing one first", Args: wantArgs("FILE"),
			RunE: func(cmd *cobra.Command, args []string) error {
				keys, err := admission.LoadKeys(args[0])
				if err != nil {
					return usage(err)
				}
				return printKeys(cmd, keys)
			},
		},
		&cobra.Command{
			Use: "rotate FILE", Short: "Sign with a fresh key; what the last one signed stays good", Args: wantArgs("FILE"),
			RunE: func(cmd *cobra.Command, args []string) error {
				keys, err := admission.LoadKeys(args[0])
				if err != nil {
					return usage(err)
				}
				keys = keys.Rotated()
				if err := replaceFile(args[0], keys.Encode()); err != nil {
					return err
				}
				return printKeys(cmd, keys)
			},
		},
	)
	return cmd
}

func printKeys(cmd *cobra.Command, keys *admission.Keys) error {
	for i, kid := range keys.KIDs() {
		role := "verifies"
		if i == 0 {
			role = "signs"
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", kid, role); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile puts new content under a name, whole or not at all.
func replaceFile(path string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".keys-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when all went well
	_, err = tmp.Write(content)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

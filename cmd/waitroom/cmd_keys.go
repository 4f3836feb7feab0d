package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/admission"
)

// newKeysCommand groups what one does with the file that serve takes as --keys, or with
// the keys that instances without one share through their Redis.
func newKeysCommand() *cobra.Command {
	var store string
	cmd := &cobra.Command{
		Use: "keys", Short: "Make, list, rotate and retire the keys that sign tokens and receipts",
		Long: "The keys are those of a file that serve takes as --keys or, with --redis in its place, those that instances without a\n" +
			"file share through their store.\n\n" + rotation,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q; see waitroom keys --help", args[0]))
			}
			return cmd.Help()
		},
	}
	shared := func(c *cobra.Command) *cobra.Command {
		c.Flags().StringVar(&store, "redis", "", "`URL` of the Redis whose instances share their keys, as serve takes it")
		c.Args = func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("redis") {
				return noArgs(cmd, args)
			}
			return wantArgs("FILE")(cmd, args)
		}
		return c
	}
	step := func(name admission.KeyStep, short, long string, change func(*admission.Keys) (*admission.Keys, error)) *cobra.Command {
		return shared(&cobra.Command{
			Use: string(name) + " FILE | --redis URL", Short: short, Long: long,
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return changeKeys(cmd, args[0], change)
				}
				return changeShared(cmd, store, name)
			},
		})
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
		shared(&cobra.Command{
			Use: "list FILE | --redis URL", Short: "List the ids of the keys, the signing one first",
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return listShared(cmd, store)
				}
				keys, err := admission.LoadKeys(args[0])
				if err != nil {
					return usage(err)
				}
				return printKeys(cmd, keys)
			},
		}),
		step(admission.PrepareKeys, "Add the next keys, which verify already and sign from the next rotate on", rotation, (*admission.Keys).Prepared),
		step(admission.RotateKeys, "Sign with the prepared keys, or fresh ones; what the last ones signed stays good", "",
			func(k *admission.Keys) (*admission.Keys, error) { return k.Rotated(), nil }),
		step(admission.RetireKeys, "Drop the keys that no longer sign: what they signed opens nothing any more", "", (*admission.Keys).Retired),
	)
	return cmd
}

const rotation = "Several instances that are restarted one after the other know each other's tokens and receipts at every moment,\n" +
	"if each step has reached all of them before the next: prepare, restart all; rotate, restart all; retire, when the\n" +
	"tokens and places of before are over, restart all. One instance alone needs no prepare. With --redis a step is\n" +
	"refused while an instance that runs has not taken the one before; with a file nobody but you knows that."

// changeKeys puts other keys in the place of a file's.
func changeKeys(cmd *cobra.Command, path string, change func(*admission.Keys) (*admission.Keys, error)) error {
	keys, err := admission.LoadKeys(path)
	if err != nil {
		return usage(err)
	}
	if keys, err = change(keys); err != nil {
		return usage(fmt.Errorf("%s: %w", path, err))
	}
	if err := replaceFile(path, keys.Encode()); err != nil {
		return err
	}
	return printKeys(cmd, keys)
}

// keysVariable begins the name of an environment variable that holds the keys.
const keysVariable = "env:"

// ownKeys are the operator's own, from a file, a directory or a variable.
func ownKeys(path string) (*admission.Keys, error) {
	if name, ok := strings.CutPrefix(path, keysVariable); ok {
		keys, err := admission.ReadKeys([]byte(os.Getenv(name)))
		if err != nil {
			return nil, fmt.Errorf("keys in %s: %w", name, err)
		}
		return keys, nil
	}
	return admission.LoadKeys(path)
}

func printKeys(cmd *cobra.Command, keys *admission.Keys) error {
	for i, kid := range keys.KIDs() {
		role := "verifies"
		switch {
		case i == 0:
			role = "signs"
		case keys.IsPrepared() && i == len(keys.KIDs())-1:
			role = "is next"
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

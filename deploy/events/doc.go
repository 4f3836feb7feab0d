// Package events carries the ready-made events that `waitroom serve --preset
// NAME` starts, one YAML file each. The same files, edited, serve as --events.
package events

import "embed"

// Files holds NAME.yaml for each preset.
//
//go:embed *.yaml
var Files embed.FS

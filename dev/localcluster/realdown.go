// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// removeReal removes what real nodes leave behind: interfaces, control groups and files. The
// processes of the nodes must have ended, and with them their mounts and other namespaces.
func removeReal(ctx context.Context, dir string) error {
	c := &Cluster{Dir: dir}
	if err := c.readNetwork(); err != nil || c.network.Name == "" {
		return err
	}
	// These are the bridge, and ports that have not disappeared with their nodes yet.
	gone := func() (bool, error) {
		left, err := filepath.Glob("/sys/class/net/" + c.network.Name + "*")
		for _, path := range left {
			if err := command(ctx, "ip", "link", "delete", filepath.Base(path)); err != nil && exists(path) {
				return false, err
			}
		}
		return len(left) == 0, err
	}
	if err := waitFor(ctx, stopTimeout, gone); err != nil {
		return fmt.Errorf("removing the interfaces %s*: %w", c.network.Name, err)
	}
	if err := waitFor(ctx, stopTimeout, func() (bool, error) { return removeControlGroups(c.network.Name) }); err != nil {
		return fmt.Errorf("removing the control groups %s: %w", c.network.Name, err)
	}
	if err := os.RemoveAll(c.nodesDir()); err != nil {
		return err
	}
	return os.Remove(c.networkFile())
}

// makeControlGroups makes a group in every hierarchy. In the hierarchy of version 2, it also enables
// the controllers in all groups above.
func makeControlGroups(name string) error {
	mounts, err := controlGroupMounts()
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		if err := os.MkdirAll(filepath.Join(mount, name), 0o755); err != nil {
			return err
		}
		for group := mount; isFile(filepath.Join(group, "cgroup.subtree_control")) && group != filepath.Join(mount, name); {
			for _, controller := range []string{"cpuset", "cpu", "io", "memory", "hugetlb", "pids"} {
				// Not every machine has all controllers; the kubelet reports missing ones.
				_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
			}
			rest, _ := filepath.Rel(group, filepath.Join(mount, name))
			first, _, _ := strings.Cut(rest, "/")
			group = filepath.Join(group, first)
		}
	}
	return nil
}

// removeControlGroups removes the groups with a name in every hierarchy, and reports whether all are
// gone. A group in which a process is still ending cannot be removed yet.
func removeControlGroups(name string) (gone bool, err error) {
	mounts, err := controlGroupMounts()
	if err != nil {
		return false, err
	}
	gone = true
	for _, mount := range mounts {
		var groups []string
		err := filepath.WalkDir(filepath.Join(mount, name), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case entry.IsDir():
				groups = append(groups, path)
			}
			return nil
		})
		if err != nil {
			return false, err
		}
		slices.Reverse(groups) // inner groups are removed first
		for _, group := range groups {
			if err := syscall.Rmdir(group); err != nil && !errors.Is(err, syscall.ENOENT) {
				gone = false
			}
		}
	}
	return gone, nil
}

// controlGroupMounts returns the mount points of the hierarchies. Version 1 has several.
func controlGroupMounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var mounts []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		// proc(5): the fifth field is the mount point; the type comes after a dash.
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); len(fields) > 4 && strings.HasPrefix(after, "cgroup") {
			mounts = append(mounts, fields[4])
		}
	}
	return mounts, lines.Err()
}

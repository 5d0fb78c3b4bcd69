r"""What the supervisor does besides, where a run has several nodes: find the other ranks, and wait for their fate.

**Before setup** it waits until every rank has an address, as long as that takes: a rank may be Pending for days. They
become SKYPILOT_NODE_IPS and SKYPILOT_SETUP_NODE_IPS, in order of rank, unless the task sets these itself. The names
are those of the JobSet's headless Service, which knows pods that are not ready, too. A UDP socket is connected to
each, which sends nothing, and the kernel tells the address in /proc/net: so an image needs bash alone, and resolv.conf
and /etc/hosts count as for any program. TERM during the wait ends it with 217.

A name keeps its old address in DNS caches for up to half a minute when a restart gives it to a new pod. So after a
restart an address counts when its machine answers, if only by refusing a connection to a port where nobody listens;
where a firewall swallows the question, what DNS says after 35 seconds counts.

**When a phase has failed**, it may be because another rank is being stopped, and is still using up its grace period:
told at once, the code would count as the job's own error. So the rank stays for the grace period and 10 seconds more.
If a peer was lost, the whole run is stopped within that time, and the code is 218. Else it is the command's.

JOB_COMPLETION_INDEX stays, since here it is what JAX and others take it for: the rank.
"""

from __future__ import annotations

from reconciler.core.indexes import COMPLETION_INDEX
from reconciler.core.jobset import RESTART_ANNOTATION, host_name_pattern
from reconciler.model import Manifest

SEVERAL_NODES = r"""
__nodes=$JOB_NODES __names=$JOB_NODE_NAMES __own=$JOB_NODE_IP
unset JOB_NODES JOB_NODE_NAMES JOB_NODE_IP

address_of() {  # HOST; sets __address, or fails
  local __port=$((1024 + RANDOM % 60000)) __socket __remote __table
  __address=
  printf -v __socket '%04X' "$__port"
  {
    for __table in /proc/net/udp /proc/net/udp6; do
      [[ -r $__table ]] || continue
      while read -r _ _ __remote _; do
        [[ $__remote == *:"$__socket" && ! $__remote =~ ^0+: ]] && numbers_of "${__remote%:*}"
      done <"$__table"
    done
  } 2>/dev/null 9<>"/dev/udp/$1/$__port"
  [[ $__address ]]
}

numbers_of() {  # HEX; the kernel writes each four bytes in the machine's own order, the last one first
  local __hex=$1
  if ((${#__hex} == 8)); then
    printf -v __address '%d.%d.%d.%d' "0x${__hex:6:2}" "0x${__hex:4:2}" "0x${__hex:2:2}" "0x${__hex:0:2}"
    return
  fi
  __address=
  while [[ $__hex ]]; do
    printf -v __address '%s:%x:%x' "$__address" "0x${__hex:6:2}${__hex:4:2}" "0x${__hex:2:2}${__hex:0:2}"
    __hex=${__hex:8}
  done
  __address=${__address#:}
}

answers() {  # ADDRESS
  local __answer
  read -rt 2 __answer < <({ : <>"/dev/tcp/$1/9" && echo open; } 2>&1)
  [[ $__answer == open || $__answer == *refused* ]]
}

find_nodes() {  # writes the addresses in order of rank, one a line
  local __rank __host __since __told_of=
  exec {__never}<> <(:)
  for ((__rank = 0; __rank < __nodes; __rank++)); do
    if [[ $__rank == "$JOB_COMPLETION_INDEX" ]]; then
      printf '%s\n' "$__own"
      continue
    fi
    printf -v __host "$__names" "$__rank"
    __since=$SECONDS
    until address_of "$__host" && { ((JOB_ATTEMPT == 0 || SECONDS - __since >= 35)) || answers "$__address"; }; do
      kill -0 "$$" 2>/dev/null || return
      if [[ ! $__told_of ]] && ((SECONDS - __since >= 30)); then
        __told_of=1
        printf 'job supervisor: waits for rank %s, %s, which has no address yet\n' "$__rank" "$__host" >&2
      fi
      read -rt 1 -u "$__never"
    done
    printf '%s\n' "$__address"
  done
}

start() {
  local __found __line= __part __status __count=0 __ips=
  exec {__found}< <(LC_ALL=C find_nodes)
  while ((__count < __nodes)); do
    read -rt 1 -u "$__found" __part
    __status=$?
    [[ $__told ]] && exit 217
    __line+=$__part
    if ((__status == 0)); then
      __ips+=${__ips:+$'\n'}$__line
      __line=
      __count=$((__count + 1))
    elif ((__status <= 128)); then
      exit 218
    fi
  done
  exec {__found}<&-
  export SKYPILOT_NODE_IPS="${SKYPILOT_NODE_IPS-$__ips}"
  export SKYPILOT_SETUP_NODE_IPS="${SKYPILOT_SETUP_NODE_IPS-$__ips}"
}

end() {  # CODE
  if [[ $__code != 0 && ! $__late ]]; then
    [[ $__never ]] || exec {__never}<> <(:)
    now
    local __until=$((__now + (__grace + 10) * 1000))
    while ((__now < __until)); do
      [[ $__told ]] && exit 218
      read -rt 0.5 -u "$__never"
      now
    done
    [[ $__told ]] && exit 218
  fi
  exit "$1"
}
"""


def rank_variables(nodes: int) -> list[Manifest]:
    """Return SkyPilot's variables that tell the nodes of a run apart."""
    names = ("SKYPILOT_NODE_RANK", "SKYPILOT_SETUP_NODE_RANK")
    ranks = [{"name": name, "valueFrom": _annotation(COMPLETION_INDEX)} for name in names]
    return [{"name": "SKYPILOT_NUM_NODES", "value": str(nodes)}, *ranks]


def search_variables(run_name: str, nodes: int) -> list[Manifest]:
    """Return what the supervisor needs to find the other ranks of the JobSet of this name."""
    return [
        {"name": "JOB_ATTEMPT", "valueFrom": _annotation(RESTART_ANNOTATION)},
        {"name": "JOB_NODES", "value": str(nodes)},
        {"name": "JOB_NODE_NAMES", "value": host_name_pattern(run_name)},
        {"name": "JOB_NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


def _annotation(name: str) -> Manifest:
    return {"fieldRef": {"fieldPath": f"metadata.annotations['{name}']"}}

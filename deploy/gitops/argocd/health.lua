-- Health of the kinds that numo serves, for Argo CD: one script for all of them. `cargo xtask manifests` makes argocd-cm.yaml of it.
-- Suspended is what a person asked for, Degraded is what waits for a person, Progressing goes on by itself.
local status = obj.status or {}
local metadata = obj.metadata or {}
local spec = obj.spec or {}
local annotations = metadata.annotations or {}

local function is(health, message)
  return { status = health, message = message }
end

local function condition(kind)
  for _, one in ipairs(status.conditions or {}) do
    if one.type == kind then
      return one
    end
  end
  return nil
end

local function words(one)
  if one.message ~= nil and one.message ~= "" then
    return (one.reason or "") .. ": " .. one.message
  end
  return one.reason or ""
end

if obj.kind == "NodeChange" then
  local step = status.step or "Selected"
  local message = step
  if status.message ~= nil and status.message ~= "" then
    message = step .. ": " .. status.message
  end
  if step == "Done" then
    return is("Healthy", message)
  elseif step == "Skipped" then
    return is("Suspended", message)
  elseif step == "Failed" or step == "Held" then
    return is("Degraded", message)
  end
  return is("Progressing", message)
end

-- Machines and their groups need nothing, unless a machine failed: what nodes wait for, the NodeVersion says.
if obj.kind == "PendingNode" then
  local state = status.cspState or "the provider has said nothing of the machine yet"
  if status.cspState == "Failed" then
    return is("Degraded", "the machine failed at its provider")
  end
  return is("Healthy", (spec.goal or "Join") .. ": " .. state)
elseif obj.kind == "ScalingGroup" then
  local outdated = condition("Outdated")
  return is("Healthy", outdated ~= nil and words(outdated) or "numo has not looked at it yet")
elseif obj.kind == "JoiningNode" then
  return is("Healthy", "its Node is waited for")
elseif obj.kind == "AutoscalingStrategy" then
  local runs = spec.enabled ~= false
  return is("Healthy", runs and "the cluster autoscaler may run" or "the cluster autoscaler rests while nodes are replaced")
end

if annotations["numo.openshift-optional.skrzypek.io/suspend"] ~= nil then
  return is("Suspended", annotations["numo.openshift-optional.skrzypek.io/suspend"])
elseif spec.suspend == true then
  return is("Suspended", "spec.suspend is true")
elseif obj.kind == "MutexBudget" and spec.paused == true then
  return is("Suspended", "spec.paused is true: nothing new begins on its nodes")
end

-- What is said of an older spec is not said of this one.
local ready = condition("Ready")
local seen = status.observedGeneration or (ready ~= nil and ready.observedGeneration) or nil
if seen ~= nil and metadata.generation ~= nil and seen < metadata.generation then
  return is("Progressing", "numo has not seen this generation yet")
end

-- An approval is used, or it has been, or it approves nothing; whether somebody waits for another one makes the difference.
if obj.kind == "MutexApproval" then
  local holds = condition("Holds")
  if holds == nil then
    return is("Progressing", "numo has not looked at it yet")
  elseif holds.status == "True" or holds.reason == "ApprovalOver" then
    return is("Healthy", words(holds))
  elseif holds.reason == "NothingWaits" then
    return is("Suspended", words(holds))
  end
  return is("Degraded", words(holds))
end

local stalled = condition("Stalled")
if stalled ~= nil and stalled.status == "True" then
  if stalled.reason == "Suspended" or stalled.reason == "Stopped" or stalled.reason == "DryRun" then
    return is("Suspended", words(stalled))
  end
  return is("Degraded", words(stalled))
end

if ready ~= nil and ready.status == "True" then
  return is("Healthy", words(ready))
elseif ready ~= nil and ready.status == "False" then
  -- A rule, a target, a budget and a binding are good or wrong; owners are on their way.
  if obj.kind == "MutexRunConfig" or obj.kind == "Plan" or obj.kind == "NodeMaintenance" or obj.kind == "NodeVersion" then
    return is("Progressing", words(ready))
  end
  return is("Degraded", words(ready))
end

-- As the operators have it that numo replaces.
if obj.kind == "Plan" then
  for _, kind in ipairs({ "LatestResolved", "Validated" }) do
    local one = condition(kind)
    if one ~= nil and one.status == "False" then
      return is("Degraded", words(one))
    end
  end
  local complete = condition("Complete")
  if complete ~= nil and complete.status == "True" then
    return is("Healthy", words(complete))
  end
elseif obj.kind == "NodeMaintenance" then
  if status.phase == "Succeeded" then
    return is("Healthy", "the node is in maintenance")
  elseif status.phase == "Failed" then
    return is("Degraded", status.lastError or "it failed")
  end
elseif obj.kind == "NodeVersion" then
  local outdated = condition("Outdated")
  if outdated ~= nil then
    return is(outdated.status == "False" and "Healthy" or "Progressing", words(outdated))
  end
end
return is("Progressing", "numo has not looked at it yet")

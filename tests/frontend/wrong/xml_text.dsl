<system version="1">
  <cpu numaid="0"/>
</system>
